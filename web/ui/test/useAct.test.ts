// @vitest-environment jsdom
import { createElement } from 'react';
import { afterEach, expect, it, vi } from 'vitest';
import { LateFailures } from '../src/shell/LateFailures';
import { useAct } from '../src/shell/useAct';
import { press, show } from './screen';

let refuse: (error: Error) => void;
const closes: (() => void)[] = [];
afterEach(() => {
  for (const close of closes.splice(0)) {
    close();
  }
});

const Page = () => {
  const { act, failure } = useAct(() => undefined);
  const work = () =>
    new Promise((_accept, reject) => {
      refuse = reject;
    });
  return createElement('button', { onClick: () => void act(work) }, failure || 'Remove');
};
const late = () => document.querySelector('[data-testid=late-failure]')?.textContent;
const sentence = 'Clusters use the release.';

it('an action that fails shows its error on its page', async () => {
  closes.push(show(createElement(LateFailures)), show(createElement(Page)));
  press('Remove');
  refuse(new Error(sentence));
  await vi.waitFor(() => {
    press(sentence);
  });
  expect(late()).toBeUndefined();
});

it('an action that fails after another page was opened shows its error there', async () => {
  closes.push(show(createElement(LateFailures)));
  const leave = show(createElement(Page));
  press('Remove');
  leave();
  refuse(new Error(sentence));
  await vi.waitFor(() => {
    expect(late()).toContain(sentence);
  });
});
