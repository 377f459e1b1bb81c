// The test server for AMS as a separate process. The appliance gets only its address.

import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from './site.mjs';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/** Builds the test server and reserves a port for it. Nothing listens there before `start`. */
export const prepareAmsServer = async () => {
  const directory = await mkdtemp(join(tmpdir(), 'landfall-ams-'));
  const program = join(directory, 'standin');
  await promisify(execFile)('go', ['build', '-o', program, './appliance/ams/amstest/standin'], {
    cwd: root,
    env: { ...process.env, CGO_ENABLED: '0' },
  });
  const address = `127.0.0.1:${String(await freePort())}`;
  const url = `http://${address}`;
  const post = async (path) => {
    const response = await fetch(`${url}/standin/${path}`, { method: 'POST' });
    if (!response.ok) {
      throw new Error(`${path}: ${String(response.status)} ${await response.text()}`);
    }
  };
  let child;
  const stop = async () => {
    if (child && child.exitCode === null) {
      const ended = once(child, 'exit');
      child.kill();
      await ended;
    }
  };
  return {
    url,
    flags: [
      `--ams-url=${url}`,
      `--ams-token-url=${url}/auth/realms/redhat-external/protocol/openid-connect/token`,
      '--ams-call-interval=5ms',
    ],
    start: async () => {
      child = spawn(program, ['--listen', address], { stdio: 'inherit' });
      for (;;) {
        try {
          await fetch(`${url}/standin/rows`);
          return;
        } catch {
          await wait(50);
        }
      }
    },
    rows: async () => (await fetch(`${url}/standin/rows`)).json(),
    break: (op, status, code, reason) =>
      post(`break?${new URLSearchParams({ op, status: String(status), code: String(code), reason }).toString()}`),
    heal: () => post('heal'),
    end: async () => {
      await stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
};
