"""Prints the share of the cases that the model answers as wanted, with the prompt under study.

MODEL is a command that reads prompt and message on standard input and prints an answer [default: the fake model beside this].
"""
import json
import os
import subprocess

MODEL = os.environ.get("MODEL", "python3 fake_model.py")

prompt = open("prompt.txt").read()
cases = [json.loads(line) for line in open("cases.jsonl")]


def answer(text):
    asked = f"{prompt}\nMessage: {text}\n"
    return subprocess.run(MODEL, shell=True, input=asked, capture_output=True, text=True, check=True).stdout.strip()


right = sum(answer(case["text"]) == case["team"] for case in cases)
print(f"accuracy: {right / len(cases):.4f}")
print(f"prompt_words: {len(prompt.split())}")
