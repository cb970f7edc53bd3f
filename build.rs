//! Packs the font that the program carries.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").ok_or("no OUT_DIR")?;
    let font = File::create(Path::new(&out).join("font.zlib"))?;
    let mut font = ZlibEncoder::new(font, Compression::best());
    font.write_all(dejavu::sans::regular())?;
    font.finish()?;
    Ok(())
}
