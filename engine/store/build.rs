//! Rebuilds the crate when a migration is added: the migrations are embedded into the binary.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
