// @vitest-environment jsdom
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { internetSites, needsInternet } from '../src/offline/hosts';
import { blockedLink, guardLinks } from '../src/offline/links';

const library = 'node_modules/@openshift-assisted/ui-lib/lib';
const base = 'http://192.0.2.2:8090/assisted-installer/clusters';

describe('needsInternet', () => {
  it.each([
    'https://docs.redhat.com/en/documentation',
    'https://console.redhat.com/openshift/install/pull-secret',
    'https://nmstate.io/examples.html',
    'http://192.0.2.2:8090/openshift/releases',
  ])('true for %s', (address) => {
    expect(needsInternet(address, base)).toBe(true);
  });

  it.each([
    '/assisted-installer/clusters/1',
    'http://192.0.2.2:8090/images/1/full.iso',
    'https://console-openshift-console.apps.demo.site.test',
    'https://notredhat.com/',
    'blob:http://192.0.2.2:8090/1',
    'mailto:root@site.test',
    'http://[',
  ])('false for %s', (address) => {
    expect(needsInternet(address, base)).toBe(false);
  });

  it("contains all sites of the library's links", async () => {
    const links = await readFile(join(library, 'common/config/docs_links.ts'), 'utf8');
    const addresses = [...links.matchAll(/https?:\/\/[a-z.]+/g)].map(([address]) => address);
    expect(addresses.length).toBeGreaterThan(20);
    expect(addresses.filter((address) => !needsInternet(address, base))).toEqual([]);
  });

  it('covers all other addresses in the library', async () => {
    const followed = /(?:href=|window\.open\()\{?["'`](https?:\/\/[a-z.]+)/g;
    for (const part of ['common', 'ocm']) {
      for (const file of await readdir(join(library, part), { recursive: true })) {
        if (file.endsWith('.tsx')) {
          const source = await readFile(join(library, part, file), 'utf8');
          for (const [, address] of source.matchAll(followed)) {
            expect(needsInternet(address ?? '', base), `${file}: ${String(address)}`).toBe(true);
          }
        }
      }
    }
  });

  it('has the same sites as the style sheet', async () => {
    const styles = await readFile('src/landfall.css', 'utf8');
    const marked = [...styles.matchAll(/a\[href\*='([a-z.]+)'\]/g)].map(([, site]) => site);
    expect(marked).toEqual([...internetSites]);
  });
});

describe('guardLinks', () => {
  const blocked = vi.fn();
  const onBlocked = (event: Event) => {
    blocked((event as CustomEvent<string>).detail);
  };
  let takeAway: () => void;

  beforeEach(() => {
    blocked.mockReset();
    window.addEventListener(blockedLink, onBlocked);
    takeAway = guardLinks(window);
  });
  afterEach(() => {
    takeAway();
    window.removeEventListener(blockedLink, onBlocked);
    document.body.innerHTML = '';
  });

  const click = (html: string): boolean => {
    document.body.innerHTML = html;
    const target = document.querySelector('b') ?? document.querySelector('a');
    return target?.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true })) ?? false;
  };

  it('reports a link to the internet instead of opening it', () => {
    expect(click('<a href="https://docs.redhat.com/x"><b>Learn more</b></a>')).toBe(false);
    expect(blocked).toHaveBeenCalledWith('https://docs.redhat.com/x');
  });

  it('allows links of the site', () => {
    expect(click('<a href="#here"><b>here</b></a>')).toBe(true);
    expect(click('<b>no link</b>')).toBe(true);
    expect(blocked).not.toHaveBeenCalled();
  });

  it('blocks pop-ups to the internet', () => {
    expect(window.open('https://console.redhat.com/openshift', '_blank')).toBeNull();
    expect(blocked).toHaveBeenCalledWith('https://console.redhat.com/openshift');
  });
});
