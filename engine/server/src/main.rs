//! The binary `legation`: the engine and its command line in one.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    legation_server::cli::main()
}
