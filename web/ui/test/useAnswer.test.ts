// @vitest-environment jsdom
import { createElement } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import { expect, it, vi } from 'vitest';
import { useAnswer, type AnswerState } from '../src/shell/useAnswer';

it('an answer arrives although changes are more frequent than answers', async () => {
  const answers: ((text: string) => void)[] = [];
  const load = vi.fn(
    (signal: AbortSignal) =>
      new Promise<string>((resolve, reject) => {
        answers.push(resolve);
        signal.addEventListener('abort', () => {
          reject(new Error('aborted'));
        });
      }),
  );
  const never = () => undefined;
  let state: AnswerState<string> | undefined;
  const Page = () => {
    state = useAnswer(load, never);
    return null;
  };
  const root = createRoot(document.createElement('div'));
  flushSync(() => {
    root.render(createElement(Page));
  });
  await vi.waitFor(() => {
    expect(load).toHaveBeenCalledTimes(1);
  });
  state?.refetch();
  state?.refetch();
  expect(load).toHaveBeenCalledTimes(1);
  answers[0]?.('first');
  await vi.waitFor(() => {
    expect(state?.answer).toBe('first');
    expect(load).toHaveBeenCalledTimes(2);
  });
  answers[1]?.('second');
  await vi.waitFor(() => {
    expect(state?.answer).toBe('second');
  });
  expect(load).toHaveBeenCalledTimes(2);
  state?.refetch();
  expect(load).toHaveBeenCalledTimes(3);
  root.unmount();
});
