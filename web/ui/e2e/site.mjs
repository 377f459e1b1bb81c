// A site for the tests: the built binary's `demo` on a free port, and hosts of its `simulate
// hosts`. LANDFALL_BIN sets the binary; the default is bin/landfall of this checkout.

import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const binary = process.env.LANDFALL_BIN ?? fileURLToPath(new URL('../../../bin/landfall', import.meta.url));

/** The longest time for the tests of a file. A step that hangs ends earlier, by its own limit. */
export const fileLimit = 20 * 60_000;

const readyWithin = 120_000;
const stoppedWithin = 15_000;

/** Flags of `serve` for tests without accounts. */
const open = ['--auth', 'none', '--tls-enabled=false'];

/**
 * Starts a site: a demo with this number of hosts and speed, or an appliance with the flags in
 * `serve`. With `accounts`, the appliance authenticates its clients, and `url` is an HTTPS URL;
 * otherwise everybody may do everything. Its configuration has what a demo's stick has, also with
 * `configured`, for an appliance without accounts. With `isNew`, its configuration is empty, but
 * allows requests to this machine. `end` stops it and removes its data.
 */
export const startSite = async ({
  hosts = 3,
  speed = 40,
  serve,
  accounts = false,
  configured = accounts,
  isNew = false,
} = {}) => {
  const data = await mkdtemp(join(tmpdir(), 'landfall-e2e-'));
  const port = await freePort();
  const local = `http://127.0.0.1:${String(port)}`;
  const url = accounts ? `https://127.0.0.1:${String(port)}` : local;
  let token;
  let around;
  const hostGroups = [];
  let appliance;

  const start = async () => {
    const place = ['--listen', `127.0.0.1:${String(port)}`, '--data-dir', data];
    if (configured) {
      around ??= await surroundings(join(data, 'site'));
      place.push(...(isNew ? ['--egress-allow', '127.0.0.0/8'] : ['--config', around.config]));
    }
    appliance =
      serve || configured
        ? run('serve', ...place, '--boot-listen', '127.0.0.1:0', ...(accounts ? [] : open), ...(serve ?? []))
        : run('demo', ...place, '--hosts', String(hosts), '--speed', String(speed));
    await waitFor(appliance, `${local}/api/landfall/v1/login`);
    if (!serve && !configured) {
      await readStick(appliance, local);
    }
  };
  const stop = () => finish(appliance);
  const credentials = () => (token ? { Authorization: `Bearer ${token}` } : {});

  try {
    await start();
  } catch (error) {
    if (appliance) {
      await stop();
    }
    await around?.end();
    throw error;
  }
  return {
    url,
    data,
    /** What a site with accounts has beside its appliance: a release, mirror rules, a live ISO. */
    around: around && { release: around.release, version: around.version, rules: around.rules, iso: around.iso },
    /** Sends a token with all further requests of the test and its hosts. */
    use: (secret) => {
      token = secret;
    },
    start,
    stop,
    /** Sends a GET request to the API. */
    get: async (path) => {
      const response = await fetch(`${local}/api/assisted-install${path}`, { headers: credentials() });
      if (!response.ok) {
        throw new Error(`GET ${path}: ${String(response.status)} ${await response.text()}`);
      }
      return response.json();
    },
    /** Sends a POST request to the API and returns the response. */
    post: async (path, body) => {
      const response = await fetch(`${local}/api/assisted-install${path}`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', ...credentials() },
        body: JSON.stringify(body),
      });
      if (!response.ok) {
        throw new Error(`POST ${path}: ${String(response.status)} ${await response.text()}`);
      }
      return response.json();
    },
    /** Sends a request with JSON to any path and returns the response. */
    send: (method, path, body) =>
      fetch(local + path, {
        method,
        headers: { 'Content-Type': 'application/json', ...credentials() },
        body: JSON.stringify(body),
      }),
    /**
     * Boots simulated hosts from an infra-env's ISO. Hosts that boot again are the same machines.
     */
    bootHosts: (infraEnvId, count, { speed = 40, faults = '', first = 1 } = {}) => {
      const hostGroup = runWith(
        token ? { LANDFALL_TOKEN: token, LANDFALL_CA: join(data, 'ca.crt') } : {},
        'simulate',
        'hosts',
        '--foreground',
        '--url',
        url,
        '--infra-env',
        infraEnvId,
        '--first',
        String(first),
        '--count',
        String(count),
        '--speed',
        String(speed),
        '--faults',
        faults,
      );
      hostGroups.push(hostGroup);
      return {
        powerOff: () => finish(hostGroup),
        /** Stops the processes of the hosts, and continues them. */
        hold: () => hostGroup.child.kill('SIGSTOP'),
        release: () => hostGroup.child.kill('SIGCONT'),
      };
    },
    /** Runs a command of `simulate` until the function that is returned is called. */
    simulate: (...args) => {
      const simulation = run('simulate', ...args);
      hostGroups.push(simulation);
      return () => finish(simulation);
    },
    /** The output of the appliance and the hosts, for a failed test. */
    output: () => [appliance, ...hostGroups].map((program) => program.output()).join('\n'),
    end: async () => {
      await Promise.all(hostGroups.map(finish));
      await stop();
      await around?.end();
      await rm(data, { recursive: true, force: true });
    },
  };
};

/**
 * Starts a demo whose registry and live ISO another appliance can use, and writes the configuration
 * of that appliance.
 */
const surroundings = async (directory) => {
  const url = `http://127.0.0.1:${String(await freePort())}`;
  const demo = run('demo', '--listen', new URL(url).host, '--data-dir', directory, '--bmcs', '0', '--speed', '0.01');
  try {
    return { ...(await configure(demo, url, directory)), end: () => finish(demo) };
  } catch (error) {
    await finish(demo);
    throw error;
  }
};

/** Writes the configuration of an appliance that uses what a demo has. */
const configure = async (demo, url, directory) => {
  await waitFor(demo, `${url}/api/landfall/v1/login`);
  const read = async (path) => (await fetch(`${url}/api/${path}`)).json();
  await readStick(demo, url);
  const { releases } = await read('landfall/v1/releases');
  const [image] = (await read('landfall/v1/status')).os_images;
  const [version] = Object.keys(await read('assisted-install/v2/openshift-versions'));
  const config = join(directory, 'landfall.json');
  const architecture = { cpu_architecture: image.cpu_architecture };
  const release = releases.find((one) => one.pull_spec).pull_spec;
  const rules = join(directory, 'registries.conf');
  await writeFile(rules, registriesConf((await read('landfall/v1/mirror')).rules));
  const images = join(directory, 'data', 'os-images');
  const iso = join(images, (await readdir(images)).find((name) => name.endsWith('.iso')));
  await writeFile(
    config,
    JSON.stringify({
      os_images: [{ ...architecture, openshift_version: version.split('.').slice(0, 2).join('.'), path: iso }],
      release_images: [
        {
          ...architecture,
          openshift_version: version,
          url: release,
          default: true,
        },
      ],
      mirror: { registries_conf: rules },
      egress: { allow: ['127.0.0.0/8'] },
    }),
  );
  return { config, release, version, rules, iso };
};

/** Waits until a demo can install the release on its stick. */
const readStick = async (demo, url) => {
  const ready = async () => {
    const { os_images: images } = await (await fetch(`${url}/api/landfall/v1/status`)).json();
    return images.some((image) => image.state === 'ready');
  };
  await poll(demo, ready, 'the demo did not read its stick');
};

/** Mirror rules as a file that a site has. */
const registriesConf = (rules) =>
  rules
    .map(({ prefix, mirrors: [mirror] }) =>
      [
        `[[registry]]\nlocation = "${prefix}"\nmirror-by-digest-only = true`,
        `[[registry.mirror]]\nlocation = "${mirror.location}"\ninsecure = true\n`,
      ].join('\n'),
    )
    .join('\n');

const waitFor = (program, url) => poll(program, () => answers(url), `the appliance did not come up at ${url}`);

/** Waits until a check of a program is true. */
const poll = async (program, check, failure) => {
  const deadline = Date.now() + readyWithin;
  while (!(await check())) {
    if (program.child.exitCode !== null || Date.now() > deadline) {
      throw new Error(`${failure}:\n${program.output()}`);
    }
    await wait(100);
  }
};

const run = (...args) => runWith({}, ...args);

const runWith = (variables, ...args) => {
  const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...variables } });
  let written = `$ landfall ${args.join(' ')}\n`;
  const keep = (part) => {
    written = (written + String(part)).slice(-20_000);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  child.on('error', (error) => {
    keep(`${binary}: ${error.message}`);
  });
  return { child, output: () => written };
};

const finish = async ({ child }) => {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) {
    return;
  }
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  const killer = setTimeout(() => child.kill('SIGKILL'), stoppedWithin);
  await ended;
  clearTimeout(killer);
};

const answers = async (url) => {
  try {
    const response = await fetch(url);
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
};

/**
 * A port on which nothing listens. It is below those that the system gives to connections, so that
 * no connection takes it while a test restarts its appliance.
 */
export const freePort = async () => {
  for (;;) {
    const port = randomInt(10_000, 32_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (isFree) {
      server.close();
      await once(server, 'close');
      return port;
    }
  }
};
