// @vitest-environment jsdom
import { createElement } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { chooseTheme, followTheme, useTheme } from '../src/shell/theme';

describe('theme', () => {
  let root: Root;
  let shown = '';
  let systemChanges: () => void;
  const system = { matches: false, addEventListener: (_: string, changed: () => void) => (systemChanges = changed) };

  const Page = () => {
    shown = useTheme();
    return null;
  };

  beforeEach(() => {
    system.matches = false;
    vi.stubGlobal('matchMedia', () => system);
    followTheme();
    root = createRoot(document.createElement('div'));
    root.render(createElement(Page));
  });

  afterEach(() => {
    root.unmount();
    vi.unstubAllGlobals();
    localStorage.clear();
  });

  const expectShown = (theme: string) =>
    vi.waitFor(() => {
      expect(shown).toBe(theme);
    });

  it('follows the system', async () => {
    await expectShown('light');
    system.matches = true;
    systemChanges();
    await expectShown('dark');
    system.matches = false;
    systemChanges();
    await expectShown('light');
  });

  it('stays as it was chosen', async () => {
    chooseTheme('dark');
    await expectShown('dark');
    systemChanges();
    followTheme();
    await expectShown('dark');
  });

  it('draws the controls of the browser as it was chosen', async () => {
    system.matches = true;
    chooseTheme('light');
    await expectShown('light');
    expect(document.documentElement.style.getPropertyValue('color-scheme')).toBe('light');
  });
});
