//! The entry of `.mcp.json`, edited as text: what else is in the file keeps its bytes.

use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::edit::{Edit, Edited, NotOurs};

/// The file by which agents find the servers of a project.
pub const MCP_FILE: &str = ".mcp.json";

const SERVERS: &str = "mcpServers";
const NAME: &str = "autoresearch";

/// The names of the program that an entry may have.
const PROGRAMS: [&str; 2] = ["ar", NAME];

/// Adds the entry that starts `program`.
pub fn install_mcp(found: Option<&[u8]>, program: &str) -> Edited {
    let Some(found) = found else { return Ok(Edit::Write(new_file(program).into_bytes())) };
    let text = utf8(found)?;
    let top = Object::read(text, 0..text.len(), "as a whole")?;
    let Some(servers) = top.value(SERVERS) else {
        return Ok(Edit::Write(top.with(text, &member_of_ours(program)).into_bytes()));
    };
    let inner = Object::read(text, servers, "mcpServers")?;
    let Some(entry) = inner.value(NAME) else {
        return Ok(Edit::Write(inner.with(text, &format!("{NAME:?}: {}", entry(program))).into_bytes()));
    };
    Ok(match program_of(&text[entry.clone()]) {
        None => Edit::UserEdited,
        // No other program is called `autoresearch`.
        Some(old) if old == program || old == NAME => Edit::Unchanged,
        Some(_) => Edit::Write([&text[..entry.start], &self::entry(program), &text[entry.end..]].concat().into_bytes()),
    })
}

/// Takes the entry out again.
pub fn remove_mcp(found: &[u8]) -> Edited {
    let text = utf8(found)?;
    if PROGRAMS.iter().any(|program| text == new_file(program)) {
        return Ok(Edit::Delete { folders: 0 });
    }
    let top = Object::read(text, 0..text.len(), "as a whole")?;
    let Some(at) = top.members.iter().position(|member| member.name == SERVERS) else { return Ok(Edit::Unchanged) };
    let servers = top.members[at].value.clone();
    let inner = Object::read(text, servers.clone(), "mcpServers")?;
    let Some(own) = inner.members.iter().position(|member| member.name == NAME) else { return Ok(Edit::Unchanged) };
    let Some(program) = program_of(&text[inner.members[own].value.clone()]) else { return Ok(Edit::UserEdited) };
    let is_made = format!("{SERVERS:?}: {}", &text[servers]) == member_of_ours(program);
    let left = if is_made { top.without(text, at) } else { inner.without(text, own) };
    Ok(Edit::Write(left.into_bytes()))
}

fn utf8(found: &[u8]) -> Result<&str, NotOurs> {
    std::str::from_utf8(found).map_err(|error| NotOurs::Json(error.to_string()))
}

fn new_file(program: &str) -> String {
    format!(
        "{{\n  \"{SERVERS}\": {{\n    \"{NAME}\": {{\n      \"command\": \"{program}\",\n      \"args\": [\"mcp\"]\n    }}\n  }}\n}}\n"
    )
}

fn entry(program: &str) -> String {
    format!("{{\"command\": \"{program}\", \"args\": [\"mcp\"]}}")
}

/// The list of servers in a file that had none; its spaces tell it from a list that was empty.
fn member_of_ours(program: &str) -> String {
    format!("\"{SERVERS}\": {{ \"{NAME}\": {} }}", entry(program))
}

/// The program that an entry of ours starts; `None` for one of the user's.
fn program_of(entry: &str) -> Option<&'static str> {
    let entry: Value = serde_json::from_str(entry).ok()?;
    PROGRAMS.into_iter().find(|program| entry == serde_json::json!({"command": program, "args": ["mcp"]}))
}

/// A member of an object: its name, and the place of its value in the whole text.
struct Member {
    name: String,
    value: std::ops::Range<usize>,
}

/// An object, by places in the whole text.
struct Object {
    /// Behind its opening brace.
    start: usize,
    /// At its closing brace.
    end: usize,
    members: Vec<Member>,
}

impl Object {
    fn read(text: &str, range: std::ops::Range<usize>, name: &'static str) -> Result<Object, NotOurs> {
        // A byte-order mark is no part of the JSON.
        let own = text[range.clone()].trim_start_matches('\u{feff}');
        let own_at = range.end - own.len();
        let parsed = serde_json::from_str::<&RawValue>(own).map_err(|error| NotOurs::Json(error.to_string()))?;
        if !parsed.get().starts_with('{') {
            return Err(NotOurs::Object(name));
        }
        let members = serde_json::Deserializer::from_str(own)
            .deserialize_map(Members { text: own, at: own_at })
            .map_err(|error| NotOurs::Json(error.to_string()))?;
        let at = own_at + (own.len() - own.trim_start().len());
        Ok(Object { start: at + 1, end: at + parsed.get().len() - 1, members })
    }

    fn value(&self, name: &str) -> Option<std::ops::Range<usize>> {
        self.members.iter().find(|member| member.name == name).map(|member| member.value.clone())
    }

    /// The text with one more member at the end, set out as the first one is.
    fn with(&self, text: &str, member: &str) -> String {
        let inside = &text[self.start..self.end];
        let space = &inside[..inside.len() - inside.trim_start().len()];
        let (at, comma) = match self.members.last() {
            Some(last) => (last.value.end, ","),
            None => (self.start, ""),
        };
        let space = if self.members.is_empty() || space.is_empty() && inside.contains(", ") { "" } else { space };
        [&text[..at], comma, space, member, &text[at..]].concat()
    }

    /// The text without one member and one comma.
    fn without(&self, text: &str, index: usize) -> String {
        let own = &self.members[index].value;
        let from = match index.checked_sub(1) {
            Some(before) => self.members[before].value.end,
            None => self.start,
        };
        let to = match (index, self.members.get(index + 1)) {
            // The comma behind it goes, as there is none before it.
            (0, Some(_)) => own.end + text[own.end..].find(',').map_or(0, |at| at + 1),
            _ => own.end,
        };
        [&text[..from], &text[to..]].concat()
    }
}

/// Reads where the values of an object are.
struct Members<'a> {
    text: &'a str,
    /// The place of `text` in the whole text.
    at: usize,
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Vec<Member>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Member>, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
            if members.iter().any(|member: &Member| member.name == name) {
                return Err(A::Error::custom(format!("`{name}` appears twice")));
            }
            // A raw value is borrowed from the text.
            let start = value.get().as_ptr() as usize - self.text.as_ptr() as usize + self.at;
            members.push(Member { name, value: start..start + value.get().len() });
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(found: &str, program: &str) -> String {
        match install_mcp(Some(found.as_bytes()), program) {
            Ok(Edit::Write(bytes)) => String::from_utf8(bytes).unwrap(),
            other => panic!("{found}: {other:?}"),
        }
    }

    #[test]
    fn the_entry_joins_what_is_there_and_leaves_without_a_trace() {
        for found in [
            "{}",
            "{ }\n",
            "\u{feff}{}",
            "{\n}\n",
            "{\"mcpServers\": {}}",
            "{\"mcpServers\": { }}",
            "{\n  \"mcpServers\": {\n  }\n}\n",
            "{\r\n\t\"mcpServers\": {\r\n\t\t\"a,b\": {\"command\": \"x\", \"n\": 1.50}\r\n\t}\r\n}",
            "{\"a\":1,\"mcpServers\":{\"a\":{},\"b\":{}},\"z\":[1, 2]}",
            "{\"a\": \"mcpServers\"}",
            "  {\n    \"other\": {\"\\u00e4\": true}\n}",
        ] {
            let with = installed(found, "ar");
            let value: Value = serde_json::from_str(with.trim_start_matches('\u{feff}')).unwrap();
            assert_eq!(value[SERVERS][NAME], serde_json::json!({"command": "ar", "args": ["mcp"]}), "{with}");
            assert_eq!(install_mcp(Some(with.as_bytes()), "ar"), Ok(Edit::Unchanged), "{with}");
            assert_eq!(remove_mcp(with.as_bytes()), Ok(Edit::Write(found.into())), "{with}");
        }
        let new = install_mcp(None, "autoresearch").unwrap();
        let Edit::Write(new) = new else { panic!("{new:?}") };
        assert_eq!(remove_mcp(&new), Ok(Edit::Delete { folders: 0 }));
    }

    #[test]
    fn entries_set_out_on_lines_of_their_own_get_another_line() {
        let found = "{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n";
        let with = installed(found, "ar");
        let own = "    \"autoresearch\": {\"command\": \"ar\", \"args\": [\"mcp\"]}";
        assert_eq!(with, format!("{{\n  \"mcpServers\": {{\n    \"a\": {{}},\n{own}\n  }}\n}}\n"));
        // What the user added behind it stays.
        let more = with.replace("]}\n", "]},\n    \"z\": {}\n");
        let left = "{\n  \"mcpServers\": {\n    \"a\": {},\n    \"z\": {}\n  }\n}\n";
        assert_eq!(remove_mcp(more.as_bytes()), Ok(Edit::Write(left.into())));
        let first = "{\"mcpServers\":{\"autoresearch\":{\"command\":\"ar\",\"args\":[\"mcp\"]},\"z\":{}}}";
        assert_eq!(remove_mcp(first.as_bytes()), Ok(Edit::Write("{\"mcpServers\":{\"z\":{}}}".into())));
    }

    #[test]
    fn an_entry_of_the_users_stays_and_the_other_name_is_replaced() {
        let own = "{\"mcpServers\": {\"autoresearch\": {\"command\": \"/opt/ar\", \"args\": [\"mcp\"]}}}";
        assert_eq!(install_mcp(Some(own.as_bytes()), "ar"), Ok(Edit::UserEdited));
        assert_eq!(remove_mcp(own.as_bytes()), Ok(Edit::UserEdited));
        let other = installed(&installed("{}", "ar"), "autoresearch");
        assert_eq!(other, installed("{}", "autoresearch"));
    }

    #[test]
    fn what_is_no_json_is_not_edited() {
        for broken in ["", "{", "{\"a\": 1,}", "// c\n{}", "{\"mcpServers\": {}} x", "{\"a\": 1, \"a\": 2}"] {
            assert!(matches!(install_mcp(Some(broken.as_bytes()), "ar"), Err(NotOurs::Json(_))), "{broken}");
        }
        assert_eq!(install_mcp(Some(b"[]"), "ar"), Err(NotOurs::Object("as a whole")));
        assert_eq!(install_mcp(Some(b"{\"mcpServers\": []}"), "ar"), Err(NotOurs::Object("mcpServers")));
        assert!(matches!(install_mcp(Some(b"\xff\xfe{}"), "ar"), Err(NotOurs::Json(_))));
    }
}
