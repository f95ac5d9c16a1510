//! A line of /proc/<pid>/stat. The name in it is any bytes that a process gave itself.

use qinglet::process::stat::parse;

pub fn run(data: &[u8]) {
    let Some(stat) = parse(data) else { return };
    assert!(stat.state.is_ascii());
    let open = data.iter().position(|byte| *byte == b'(').expect("a name begins");
    let close = data.iter().rposition(|byte| *byte == b')').expect("a name ends");
    for name in [&b""[..], b") Z 1 1 1 0 (", b" R 0 ", b"((()", b"\n\xff\0"] {
        let renamed = [&data[..=open], name, &data[close..]].concat();
        assert_eq!(parse(&renamed), Some(stat), "a name changes nothing");
    }
    let written = format!(
        "{} (x) {} {} {} {} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 {} 0",
        stat.pid,
        char::from(stat.state),
        stat.parent,
        stat.group,
        stat.session,
        stat.start_ticks
    );
    assert_eq!(parse(written.as_bytes()), Some(stat), "{written}");
}
