import { beforeEach, describe, expect, it, vi } from 'vitest';

const origin = 'https://site.test:8090';

type Sent = [string, string | null];

/** A window whose server answers with the revisions, one after the other; null is none. */
const page = async (...answers: (number | null)[]) => {
  const { followRevisions, noteRevision, revisionHeader } = await import('../src/live/revision');
  const sent: Sent[] = [];
  const next = () => {
    const revision = answers.shift() ?? null;
    return revision === null ? new Headers() : new Headers({ [revisionHeader]: String(revision) });
  };
  const fetch = (url: string, init?: RequestInit) => {
    sent.push([url, new Headers(init?.headers).get(revisionHeader)]);
    return Promise.resolve({ headers: next() });
  };
  class XMLHttpRequest extends EventTarget {
    #url = '';
    #headers = new Headers();
    #answer = new Headers();
    open(_method: string, url: string) {
      this.#url = url;
    }
    setRequestHeader(name: string, value: string) {
      this.#headers.set(name, value);
    }
    getResponseHeader = (name: string) => this.#answer.get(name);
    send() {
      sent.push([this.#url, this.#headers.get(revisionHeader)]);
      this.#answer = next();
      this.dispatchEvent(new Event('load'));
    }
  }
  const window = { location: { origin }, fetch, XMLHttpRequest } as unknown as Window & typeof globalThis;
  followRevisions(window);
  const ask = (url: string) => {
    const asked = new window.XMLHttpRequest();
    asked.open('GET', url);
    asked.send();
  };
  return { window, sent, ask, noteRevision };
};

describe('followRevisions', () => {
  beforeEach(() => {
    vi.resetModules();
  });

  it('sends the newest revision that the page has seen', async () => {
    const { window, sent, ask, noteRevision } = await page(7, 5, null, 9);
    for (let i = 0; i < 2; i++) {
      await window.fetch('/api/a');
      ask('/api/b');
    }
    noteRevision(8);
    noteRevision(12);
    await window.fetch('/api/c');
    expect(sent).toEqual([
      ['/api/a', null],
      ['/api/b', '7'],
      ['/api/a', '7'],
      ['/api/b', '7'],
      ['/api/c', '12'],
    ]);
  });

  it('sends nothing to a single appliance and to other servers', async () => {
    const { window, sent, ask, noteRevision } = await page(null, null, null, 3);
    await window.fetch('/api/a');
    ask(`${origin}/api/b`);
    noteRevision(2);
    await window.fetch('https://other.test/c');
    ask('https://other.test/d');
    ask('/api/e');
    expect(sent).toEqual([
      ['/api/a', null],
      [`${origin}/api/b`, null],
      ['https://other.test/c', null],
      ['https://other.test/d', null],
      ['/api/e', '2'],
    ]);
  });

  it('ignores what is no revision', async () => {
    const { window, sent, noteRevision } = await page();
    noteRevision(Number.NaN);
    noteRevision(1e300);
    await window.fetch('/api/a');
    expect(sent).toEqual([['/api/a', null]]);
  });
});
