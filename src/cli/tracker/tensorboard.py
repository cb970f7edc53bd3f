import shutil

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.hparams import metadata as hparams
from tensorboard.plugins.hparams.api_pb2 import Status
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

# It marks a folder that an export may replace.
MARK = "autoresearch-session"


def folder_of(first):
    """The session's folder, empty. A folder of the same name that is not its own stays."""
    for name in (first["tag"], f"{first['tag']}-{key(first)[:8]}"):
        folder = os.path.join(OUTPUT, name)
        mark = os.path.join(folder, MARK)
        if os.path.exists(folder):
            if not os.path.isfile(mark) or open(mark).read() != key(first):
                continue
            shutil.rmtree(folder)
        os.makedirs(folder)
        with open(mark, "w") as file:
            file.write(key(first))
        return folder
    sys.exit(f"{folder} exists, and no export wrote it")


def text(name, content):
    tensor = TensorProto(dtype=DT_STRING, string_val=[content.encode()], tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]))
    return Summary.Value(tag=name, tensor=tensor, metadata=create_summary_metadata(name, ""))


def scalars(values):
    return [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]


def hparam(tag, data):
    return Summary.Value(tag=tag, metadata=hparams.create_summary_metadata(data), tensor=hparams.NULL_TENSOR)


def add(writer, record, values):
    event = Event(wall_time=seconds(record["finished"]), step=record["sequence"], summary=Summary(value=values))
    writer.add_event(event)
    writer.flush()


def table(record):
    rows = [f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in {**facts(record), "notes": notes(record)}.items()]
    return "\n".join(["| | |", "|---|---|", *rows])


def write_experiment(folder, record):
    start = SessionStartInfo(start_time_secs=seconds(record["started"]), group_name=title(record))
    for name, value in facts(record).items():
        start.hparams[name].string_value = value
    status = Status.STATUS_FAILURE if record["outcome"] == "crash" else Status.STATUS_SUCCESS
    end = SessionEndInfo(status=status, end_time_secs=seconds(record["finished"]))
    writer = EventFileWriter(os.path.join(folder, f"{record['id']:05}"))
    add(writer, record, [
        hparam(hparams.SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=start)),
        *scalars(numbers(record)),
        text("experiment", table(record)),
        hparam(hparams.SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=end)),
    ])
    writer.close()


def main():
    session, course = None, Course()
    for record in records():
        if session is None:
            folder = folder_of(record)
            session = EventFileWriter(folder)
        write_experiment(folder, record)
        add(session, record, scalars(course.add(record)))
    if session:
        session.close()


main()
