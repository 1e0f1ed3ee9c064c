"use strict";
{
	const fs = require("fs");
	const vm = require("vm");
	const folder = process.argv.pop();
	const finite = (key, value) => {
		if (typeof value === "number" && !Number.isFinite(value)) {
			throw new RangeError(`${value} is not JSON`);
		}
		return value;
	};
	const code = fs.readFileSync(0, "utf8");
	globalThis.INPUT_DATA = JSON.parse(fs.readFileSync(folder + "/input", "utf8"));
	fs.unlinkSync(folder + "/input");
	process.on("exit", (status) => {
		if (status !== 0) {
			return;
		}
		try {
			const value = vm.runInThisContext("typeof result === 'undefined' ? undefined : result");
			const text = JSON.stringify(value, finite);
			if (text !== undefined) {
				fs.writeFileSync(folder + "/result", text, { flag: "wx" });
			}
		} catch (e) {
			fs.rmSync(folder + "/result", { force: true });
			fs.writeFileSync(folder + "/why", String(e).slice(0, 1000), { flag: "wx" });
		}
	});
	globalThis.require = require;
	vm.runInThisContext(code, { filename: "<code>" });
}
