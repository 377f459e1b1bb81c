// @vitest-environment jsdom
import { createElement, Fragment, useState } from 'react';
import { afterEach, expect, it, vi } from 'vitest';
import { FormDialog } from '../src/shell/FormDialog';
import { LateFailures } from '../src/shell/LateFailures';
import { button, press, show } from './screen';

let answer: { accept: (nothing: undefined) => void; refuse: (error: Error) => void };
const children = 'The server restarts.';
let close: () => void;
const onSent = vi.fn();

/** A page with a dialog for each of two servers. */
const Page = () => {
  const [open, setOpen] = useState('first');
  const onClose = () => {
    setOpen('');
  };
  const onSend = () =>
    new Promise((accept, refuse) => {
      answer = { accept, refuse };
    });
  const ofFirst = createElement(FormDialog, { title: 'Boot first', action: 'Boot', onSend, onSent, onClose, children });
  const ofSecond = createElement(FormDialog, { title: 'Boot second', action: 'Boot', onSend, onClose, children });
  const next = () => {
    setOpen('second');
  };
  return createElement(
    Fragment,
    null,
    createElement('button', { onClick: next }, 'Next'),
    createElement(LateFailures),
    open === 'first' && ofFirst,
    open === 'second' && ofSecond,
  );
};

afterEach(() => {
  close();
  onSent.mockReset();
});

const titles = () => [...document.querySelectorAll('[role=dialog]')].map((one) => one.getAttribute('aria-label'));

const closeEarlyAndOpenNext = () => {
  close = show(createElement(Page));
  press('Boot');
  press('Cancel');
  press('Next');
  expect(titles()).toEqual(['Boot second']);
};

const settle = () => new Promise((over) => setTimeout(over));

it('a dialog closes when its request succeeds', async () => {
  close = show(createElement(Page));
  press('Boot');
  answer.accept(undefined);
  await vi.waitFor(() => {
    expect(titles()).toEqual([]);
  });
  expect(onSent).toHaveBeenCalledOnce();
});

it('a request that succeeds after its dialog was closed leaves the next dialog open', async () => {
  closeEarlyAndOpenNext();
  answer.accept(undefined);
  await settle();
  expect(titles()).toEqual(['Boot second']);
  expect(onSent).not.toHaveBeenCalled();
});

it('a request that fails after its dialog was closed shows its error on the page', async () => {
  closeEarlyAndOpenNext();
  answer.refuse(new Error('The BMC does not respond.'));
  await vi.waitFor(() => {
    expect(document.querySelector('[data-testid=late-failure]')?.textContent).toContain('The BMC does not respond.');
  });
  expect(document.querySelector('[data-testid=late-failure]')?.textContent).toContain('Boot first');
  expect(titles()).toEqual(['Boot second']);
  expect(document.querySelector('[role=dialog]')?.textContent).not.toContain('The BMC does not respond.');
});

it('a refused request is announced, and its button keeps the focus', async () => {
  close = show(createElement(Page));
  press('Boot');
  expect(button('Boot').ariaDisabled).toBe('true');
  expect(button('Boot').disabled).toBe(false);
  answer.refuse(new Error('The BMC does not respond.'));
  await vi.waitFor(() => {
    expect(document.querySelector('[role=dialog] [role=alert]')?.textContent).toContain('The BMC does not respond.');
  });
});
