//! Routines on the devices: what CUDA's source looks like and that it compiles, and that both devices have the same values, warnings and
//! failures. As in `cuda_compile.rs`, sources are compiled where `VERDIGRIS_NVRTC` is the path of libnvrtc; devices are compared
//! where `VERDIGRIS_TEST_DEVICE` is cuda.
#![cfg(not(target_os = "macos"))]

mod samples;

use std::path::Path;

use verdigris_engine::backend::cuda::codegen::routine::define;
use verdigris_engine::backend::cuda::codegen::{self, Variant};
use verdigris_engine::backend::cuda::compile::{compile, known_archs, Target};
use verdigris_engine::plan::{Access, Call, Input, Instruction, Plan};
use verdigris_engine::routine::{intern, Interned, Routine, Source};

/// A plan that stores a routine's results.
fn plan(routine: Routine) -> Plan {
    let routine = intern(routine);
    let mut plan = Plan::default();
    let mut args = Vec::new();
    for p in &routine.parameters {
        args.push(plan.code.len() as u16);
        if let Source::Given(_) = p.source {
            plan.code.push(Instruction::Load(plan.inputs.len() as u16));
            plan.inputs.push(Input { dtype: p.dtype, access: Access::Linear });
        } else {
            plan.code.push(Instruction::Scalar(plan.scalars as u16, p.dtype.class()));
            plan.scalars += 1;
        }
    }
    let mut tables = Vec::new();
    for table in &routine.tables {
        tables.push(plan.inputs.len() as u16);
        plan.inputs.push(Input { dtype: table.dtype, access: Access::Picked });
    }
    let call = plan.code.len() as u16;
    let (args, tables) = (args.into(), tables.into());
    plan.code.push(Instruction::Call(Box::new(Call { routine: Interned(routine), args, tables })));
    for (k, (_, dtype)) in routine.results.iter().enumerate() {
        plan.outputs.push((plan.code.len() as u16, *dtype));
        plan.code.push(Instruction::Result { call, result: k as u8 });
    }
    plan
}

/// Writes each kernel's source to the folder that `VERDIGRIS_SOURCES` names.
#[test]
fn sources_compile_for_every_generation() {
    let Some(path) = std::env::var_os("VERDIGRIS_NVRTC") else { return };
    std::env::set_var("VERDIGRIS_CUDA_PATH", Path::new(&path).parent().expect("a path to a file"));
    let newest = known_archs().expect("NVRTC can be loaded").into_iter().max().expect("it knows an architecture");
    for routine in samples::all() {
        let name = routine.name.clone();
        let source = codegen::source(&plan(routine), Variant::default());
        for target in [Target::Cubin(90), Target::Ptx(75), Target::Ptx(newest)] {
            let image = compile(&source, target).unwrap_or_else(|error| {
                panic!("{name}, {target:?}: {error}\n{}\n{source}", error.detail.clone().unwrap_or_default())
            });
            if let Some(folder) = std::env::var_os("VERDIGRIS_SOURCES") {
                let file = Path::new(&folder).join(format!("{name}.{target:?}"));
                std::fs::write(file, image.bytes).expect("a file");
            }
        }
        if let Some(folder) = std::env::var_os("VERDIGRIS_SOURCES") {
            std::fs::write(Path::new(&folder).join(format!("{name}.cu")), source).expect("a file");
        }
    }
}

#[test]
fn a_function_reads_as_it_was_written() {
    let text = define(&samples::mandelbrot(1000), "mandelbrot_");
    println!("{text}");
    assert!(text.contains("// function(cr, ci) {"));
}
