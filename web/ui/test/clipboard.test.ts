// @vitest-environment jsdom
import { afterEach, describe, expect, it, vi } from 'vitest';
import { provideClipboard } from '../src/shell/clipboard';

describe('provideClipboard', () => {
  afterEach(() => {
    Reflect.deleteProperty(window.navigator, 'clipboard');
    Reflect.deleteProperty(document, 'execCommand');
  });

  const oldWay = (copies: boolean) => {
    const selected = vi.fn();
    Object.defineProperty(document, 'execCommand', {
      configurable: true,
      value: (command: string) => {
        selected(command, document.querySelector('textarea')?.value);
        return copies;
      },
    });
    return selected;
  };

  it('copies a selection if there is no clipboard', async () => {
    const selected = oldWay(true);
    provideClipboard(window);
    await window.navigator.clipboard.writeText('secret');
    expect(selected).toHaveBeenCalledWith('copy', 'secret');
    expect(document.querySelector('textarea')).toBeNull();
  });

  it('throws if the browser refuses', async () => {
    oldWay(false);
    provideClipboard(window);
    await expect(window.navigator.clipboard.writeText('secret')).rejects.toThrow('does not permit');
  });

  it('keeps an existing clipboard', () => {
    const theirs = { writeText: vi.fn() };
    Object.defineProperty(window.navigator, 'clipboard', { configurable: true, value: theirs });
    provideClipboard(window);
    expect(window.navigator.clipboard).toBe(theirs);
  });
});
