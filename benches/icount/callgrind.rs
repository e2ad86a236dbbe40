//! Running a body under callgrind.

use std::process::Command;

use crate::bodies::{COUNTED, RUNS};

/// The argument by which this program runs one body instead of counting them all.
pub const RUN: &str = "--run";

/// Asks for the vectors the CPU offers instead of for a body.
const VECTORS: &str = "vectors";

/// Leaves libc its SSE2 forms of `memcpy` and the like, whatever the machine prefers.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX_Fast_Unaligned_Load,-AVX512VL,-AVX512F,-AVX2,-ERMS,-FSRM";

/// Instructions of one run of the body `name`.
pub fn count(name: &str) -> Result<u64, String> {
    let directory = tempfile::tempdir().map_err(|error| format!("no directory for what callgrind finds: {error}"))?;
    let found = directory.path().join("found");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind", &format!("--toggle-collect={COUNTED}")]);
    valgrind.arg(format!("--callgrind-out-file={}", found.display()));
    run(valgrind.arg(this_program()?).args([RUN, name]))?;
    let text = std::fs::read_to_string(&found).map_err(|error| format!("callgrind left nothing to read: {error}"))?;
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: ")).and_then(|totals| totals.trim().parse::<u64>().ok());
    match totals {
        Some(total @ 1..) => Ok(total.div_ceil(RUNS)),
        _ => Err(format!("callgrind counted nothing for {name}: it did not see a function called {COUNTED}")),
    }
}

/// The widest vectors that sums can use on valgrind's CPU, which is not always this machine's.
pub fn vectors() -> Result<String, String> {
    run(Command::new("valgrind").args(["--quiet", "--tool=none"]).arg(this_program()?).args([RUN, VECTORS]))
}

/// What `program` says its version is.
pub fn version(program: &str) -> Result<String, String> {
    run(Command::new(program).arg("--version"))
}

/// Answers [`vectors`], in valgrind's CPU; `false` if `name` asks for something else.
pub fn answer(name: &str) -> bool {
    let asked = name == VECTORS;
    if asked {
        let level = format!("{:?}", fearless_simd::Level::new());
        println!("{}", level.split('(').next().unwrap_or_default());
    }
    asked
}

fn this_program() -> Result<std::path::PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("where this program lies cannot be told: {error}"))
}

/// What `command` prints.
fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().display().to_string();
    let output = command.env("GLIBC_TUNABLES", TUNABLES).output().map_err(|error| format!("{program} cannot be run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} failed, {}: {}", output.status, said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
