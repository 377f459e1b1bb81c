// @vitest-environment jsdom
import { createElement } from 'react';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { NewClusterForm } from '../src/clusters/NewClusterForm';
import { show, type } from './screen';

const versions = { '4.20.1': { default: true, cpu_architectures: ['x86_64'] } };

let close: () => void;

const open = (hasPullSecret = false, offered: typeof versions | Record<string, object> = versions) => {
  const form = createElement(NewClusterForm, { versions: offered, clusters: [], hasPullSecret });
  close = show(createElement(MemoryRouter, null, form));
};
const field = (name: string) => document.querySelector<HTMLInputElement>(`#new-${name}`)?.value;
const cancel = () => {
  [...document.querySelectorAll('a')].find(({ textContent }) => textContent === 'Cancel')?.click();
};

beforeEach(() => {
  vi.stubGlobal('fetch', () => new Promise(() => undefined));
});
afterEach(() => {
  cancel();
  close();
  vi.unstubAllGlobals();
});

it("what is typed stays when another page was open, but not in the browser's storage", () => {
  open();
  type('#new-name', 'harbor');
  type('#new-pullSecret', '{"auths":{}}');
  close();
  open();
  expect([field('name'), field('pullSecret')]).toEqual(['harbor', '{"auths":{}}']);
  expect(sessionStorage).toHaveLength(0);
  expect(localStorage).toHaveLength(0);
});

it('Cancel forgets what was typed', () => {
  open();
  type('#new-name', 'harbor');
  cancel();
  close();
  open();
  expect(field('name')).toBe('');
});

it("the site's pull secret is used if it was set meanwhile", () => {
  open();
  type('#new-name', 'harbor');
  close();
  open(true);
  expect(document.querySelector('[data-testid=site-pull-secret]')?.textContent).toContain('is used');
});

it('a version that was removed meanwhile is replaced', () => {
  open();
  type('#new-name', 'harbor');
  close();
  open(false, { '4.21.0': { cpu_architectures: ['x86_64'] } });
  expect([field('name'), field('version')]).toEqual(['harbor', '4.21.0']);
});
