// @vitest-environment jsdom
import { createElement } from 'react';
import { flushSync } from 'react-dom';
import { afterEach, expect, it } from 'vitest';
import type { LoginMethods } from '../src/access/api';
import { LoginForm } from '../src/access/LoginPage';
import { show } from './screen';

let close: () => void;
afterEach(() => {
  close();
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
