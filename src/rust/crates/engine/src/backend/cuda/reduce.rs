use super::*; pub fn whole(_: &Cuda, _: &Plan, _: &Bound, _: Reduction, _:bool) -> Result<Outcome> { todo!() }
pub fn groups(_: &Cuda, _: &Plan, _: &Bound, _: Reduction, _:bool, _:Groups, _:&Arc<Buffer>) -> Result<()> { todo!() }
