// @vitest-environment jsdom
import { createElement } from 'react';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, expect, it, vi } from 'vitest';
import type { InfraEnv, Server } from '../src/bmc/api';
import { ServerTable } from '../src/bmc/ServerTable';
import type { Act } from '../src/shell/useAct';
import { press, show } from './screen';

vi.mock('../src/access/AccessProvider', () => ({ useMay: () => true }));

let close: () => void;
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

const server = {
  id: 's',
  name: 'rack-1',
  address: '192.0.2.7',
  state: 'available',
  power: 'on',
  booted: { at: '2026-01-01T00:00:00Z', host: { infra_env_id: 'i', id: 'h' } },
} as Server;

it.each(['Shut down', 'Power off', 'Restart'])('%s names the server and its host, and waits', async (name) => {
  vi.stubGlobal('fetch', () => Promise.resolve(Response.json({ requested_hostname: 'worker-7', status: 'installed' })));
  const act = vi.fn<Act>(() => Promise.resolve(true));
  const infraEnvs: InfraEnv[] = [];
  close = show(createElement(MemoryRouter, null, createElement(ServerTable, { servers: [server], infraEnvs, act })));
  press('More for rack-1');
  await vi.waitFor(() => {
    press(name);
  });
  expect(act).not.toHaveBeenCalled();
  const dialog = await vi.waitFor(() => {
    const found = document.querySelector('[role=dialog]');
    expect(found?.textContent).toContain('worker-7');
    return found;
  });
  expect(dialog?.textContent).toContain(`${name} rack-1?`);
  const confirm = [...(dialog?.querySelectorAll('button') ?? [])].find((one) => one.textContent === name);
  confirm?.click();
  expect(act).toHaveBeenCalledOnce();
});
