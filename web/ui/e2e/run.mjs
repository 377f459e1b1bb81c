// Runs the browser tests: `npm run e2e`, or `npm run e2e -- NAME …` for some files. Two files run
// at the same time, each in a process of its own. A file that fails runs once more from its start:
// a browser on a busy machine can miss a step for reasons that are not Landfall's. Both runs are
// printed, and the end lists these files, so a defect that shows only sometimes is not hidden.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';

const directory = fileURLToPath(new URL('.', import.meta.url));
const ending = '.test.mjs';
const atOnce = 2;
/** More files than this do not fail by chance: they get no second run. */
const maxSecondRuns = 3;
const longest = 25 * 60_000;

/** The files that take longest. They begin first, so that none of them runs alone at the end. */
const first = ['accessiblewizard', 'accessible', 'registry', 'failures', 'install', 'sessions', 'images'];

const print = (text) => process.stdout.write(`${text}\n`);
const seconds = (from) => Math.round((Date.now() - from) / 1000);

/** Runs the tests of a file in a new process. */
const run = async (name) => {
  const began = Date.now();
  const test = spawn(process.execPath, ['--test', '--test-reporter=spec', `${directory}${name}${ending}`], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: longest,
    killSignal: 'SIGKILL',
  });
  let output = '';
  for (const stream of [test.stdout, test.stderr]) {
    stream.setEncoding('utf8').on('data', (part) => {
      output += part;
    });
  }
  const [code] = await once(test, 'close');
  return { passed: code === 0, output, seconds: seconds(began) };
};

const began = Date.now();
const all = (await readdir(directory))
  .filter((file) => file.endsWith(ending))
  .map((file) => file.slice(0, -ending.length));
const wanted = process.argv.slice(2).map((name) => name.replace(/^.*\//, '').replace(ending, ''));
const unknown = wanted.filter((name) => !all.includes(name));
if (unknown.length > 0) {
  print(`No such test: ${unknown.join(', ')}. The tests are: ${all.join(', ')}.`);
  process.exit(1);
}
const place = (name) => (first.includes(name) ? first.indexOf(name) : first.length);
const queue = (wanted.length > 0 ? wanted : all).sort((a, b) => place(a) - place(b));
const failedOnce = [];
const failed = [];

const runNext = async () => {
  for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
    const result = await run(name);
    print(result.output);
    print(`${name}: ${result.passed ? 'passed' : 'FAILED'} in ${String(result.seconds)} s, ` +
      `load ${loadavg()[0].toFixed(1)}`);
    if (result.passed) {
      continue;
    }
    if (failedOnce.length + failed.length >= maxSecondRuns) {
      failed.push(name);
      continue;
    }
    failedOnce.push(name);
    const second = await run(name);
    print(second.output);
    if (second.passed) {
      print(`failed once, passed on the second run: ${name}\nThe output of the first run:\n${result.output}`);
    } else {
      print(`${name}: FAILED twice`);
      failedOnce.splice(failedOnce.indexOf(name), 1);
      failed.push(name);
    }
  }
};
await Promise.all(Array.from({ length: atOnce }, runNext));

print(`Browser tests: ${String(seconds(began))} s`);
for (const name of failedOnce) {
  print(`failed once, passed on the second run: ${name}`);
}
for (const name of failed) {
  print(`FAILED: ${name}`);
}
process.exitCode = failed.length > 0 ? 1 : 0;
