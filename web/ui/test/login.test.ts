// @vitest-environment jsdom
import { createElement } from 'react';
import { flushSync } from 'react-dom';
import { afterEach, expect, it, vi } from 'vitest';
import type { LoginMethods } from '../src/access/api';
import { LoginForm } from '../src/access/LoginPage';
import { button, press, show, type } from './screen';

let close: () => void;
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

const form = (setup: boolean) =>
  createElement(LoginForm, { methods: { setup } as LoginMethods, entered: () => undefined });
const passwordType = () => document.querySelector<HTMLInputElement>('#password')?.type;
const showPassword = () => document.querySelector<HTMLInputElement>('#show-password');

it('the setup shows the password on request', () => {
  close = show(form(true));
  expect(passwordType()).toBe('password');
  flushSync(() => {
    showPassword()?.click();
  });
  expect(passwordType()).toBe('text');
  flushSync(() => {
    showPassword()?.click();
  });
  expect(passwordType()).toBe('password');
});

it('the login does not show the password', () => {
  close = show(form(false));
  expect(showPassword()).toBeNull();
});

it('a refused login is announced, and its button keeps the focus', async () => {
  vi.stubGlobal('fetch', () =>
    Promise.resolve(Response.json({ reason: 'the name or the password is wrong' }, { status: 401 })),
  );
  close = show(form(false));
  type('#name', 'anna');
  type('#password', 'wrong');
  press('Log in');
  expect(button('Log in').ariaDisabled).toBe('true');
  expect(button('Log in').disabled).toBe(false);
  await vi.waitFor(() => {
    expect(document.querySelector('[role=alert]')?.textContent).toContain('The name or the password is wrong.');
  });
});
