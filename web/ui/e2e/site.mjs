// A site for the tests: the built binary's `demo` on a free port, and hosts of its `simulate
// hosts`. LANDFALL_BIN sets the binary; the default is bin/landfall of this checkout.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const binary = process.env.LANDFALL_BIN ?? fileURLToPath(new URL('../../../bin/landfall', import.meta.url));

const readyWithin = 60_000;
const stoppedWithin = 15_000;

/** Flags of `serve` for tests without accounts. */
const open = ['--auth', 'none', '--tls-enabled=false'];

/**
 * Starts a site: a demo with this number of hosts and speed, or an appliance with the flags in
 * `serve`. With `accounts`, the appliance authenticates its clients, and `url` is an HTTPS URL;
 * otherwise everybody may do everything. `end` stops it and removes its data.
 */
export const startSite = async ({ hosts = 3, speed = 40, serve, accounts = false } = {}) => {
  const data = await mkdtemp(join(tmpdir(), 'landfall-e2e-'));
  const port = await freePort();
  const local = `http://127.0.0.1:${String(port)}`;
  const url = accounts ? `https://127.0.0.1:${String(port)}` : local;
  let token;
  const hostGroups = [];
  let appliance;

  const start = async () => {
    const place = ['--listen', `127.0.0.1:${String(port)}`, '--data-dir', data];
    appliance = serve
      ? run('serve', ...place, '--boot-listen', '127.0.0.1:0', ...(accounts ? [] : open), ...serve)
      : run('demo', ...place, '--hosts', String(hosts), '--speed', String(speed));
    const deadline = Date.now() + readyWithin;
    while (!(await answers(`${local}/api/landfall/v1/login`))) {
      if (appliance.child.exitCode !== null || Date.now() > deadline) {
        throw new Error(`the appliance did not come up at ${url}:\n${appliance.output()}`);
      }
      await wait(100);
    }
  };
  const stop = () => finish(appliance);
  const credentials = () => (token ? { Authorization: `Bearer ${token}` } : {});

  await start();
  return {
    url,
    data,
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
    /**
     * Boots simulated hosts from an infra-env's ISO. Hosts that boot again are the same machines.
     */
    bootHosts: (infraEnvId, count, { speed = 40, faults = '', first = 1 } = {}) => {
      const hostGroup = run(
        'simulate',
        'hosts',
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
    /** The output of the appliance and the hosts, for a failed test. */
    output: () => [appliance, ...hostGroups].map((program) => program.output()).join('\n'),
    end: async () => {
      await Promise.all(hostGroups.map(finish));
      await stop();
      await rm(data, { recursive: true, force: true });
    },
  };
};

const run = (...args) => {
  const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'] });
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

export const freePort = async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
};
