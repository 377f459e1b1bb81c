// @vitest-environment jsdom
import { readFile, readdir } from 'node:fs/promises';
import { createElement } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { describe, expect, it } from 'vitest';
import { anchorOf, library, marked, parse, search, targetOf, topicOf, wordsOf } from '../src/docs/document';
import { files } from '../src/docs/files';
import { Markdown } from '../src/docs/Markdown';

const documents = library(files);
const topics = documents.map(({ topic }) => topic);

const shown = (markdown: string): HTMLElement => {
  const place = document.createElement('div');
  const root = createRoot(place);
  flushSync(() => {
    root.render(
      createElement(
        MemoryRouter,
        null,
        createElement(Markdown, { document: parse('here', markdown), topics: ['here', 'bmc'] }),
      ),
    );
  });
  return place;
};

describe('the documents', () => {
  it('are those of landfall docs, and the README first', async () => {
    const source = await readFile('../../docs/docs.go', 'utf8');
    const embedded = [...source.matchAll(/^\/\/go:embed (.*)$/gm)].flatMap(([, names]) => names?.split(' ') ?? []);
    expect(topics[0]).toBe('readme');
    expect(topics.slice(1).sort()).toEqual(embedded.map(topicOf).sort());
  });

  it('have titles, and links to headings that exist', () => {
    const anchors = new Map(documents.map((one) => [one.topic, new Set(one.anchors.values())]));
    const lost = Object.entries(files).flatMap(([path, text]) => {
      const topic = topicOf(path) ?? '';
      return [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, href = '']) => {
        const target = targetOf(href, topic, topics);
        if (target.kind !== 'page' || !target.path.includes('#')) {
          return [];
        }
        const [name = '', anchor = ''] = target.path.replace('/docs/', '').split('#');
        return anchors.get(name)?.has(anchor) ? [] : [`${topic}: ${href}`];
      });
    });
    expect(lost).toEqual([]);
    expect(documents.filter(({ title, topic }) => title === topic)).toEqual([]);
  });
});

it('the pages link to documents that exist', async () => {
  const sources = (await readdir('src', { recursive: true })).filter((name) => name.endsWith('.tsx'));
  const texts = await Promise.all(sources.map((name) => readFile(`src/${name}`, 'utf8')));
  const links = texts.flatMap((text) => [...text.matchAll(/<Help to="([^"]+)"/g)].map(([, to = '']) => to));
  expect(links.length).toBeGreaterThan(8);
  const places = new Set(
    documents.flatMap(({ topic, anchors }) => [topic, ...[...anchors.values()].map((anchor) => `${topic}#${anchor}`)]),
  );
  expect(links.filter((to) => !places.has(to))).toEqual([]);
});

describe('headings', () => {
  it('have the anchors of landfall docs', () => {
    expect(anchorOf('Before the laptop leaves')).toBe('before-the-laptop-leaves');
    expect(anchorOf("The engine's rules, and `code`")).toBe('the-engines-rules-and-code');
  });

  it('of the same text have different anchors', () => {
    expect([...parse('t', '# T\n## A\n## A\n').anchors.values()]).toEqual(['t', 'a', 'a-1']);
  });

  it('divide a document', () => {
    const { title, sections } = parse(
      't',
      '<!-- note -->\n# **T**\ntext\n## A\na\n### B\nb\n#### C\nc\n```\n# no\n```\n',
    );
    expect(title).toBe('T');
    expect(sections.map(({ title: name, level }) => [name, level])).toEqual([
      ['T', 1],
      ['A', 2],
      ['B', 3],
    ]);
    expect(sections[2]?.text).toContain('#### C');
    expect(sections[0]?.text).not.toContain('note');
  });
});

describe('search', () => {
  const found = [
    parse('a', '# One\nThe disk is full.\n## Disk\nA disk.\n'),
    parse('b', '# Two\nA [full](x.md) `disk` here.\nThe disk.\n'),
  ];

  it('finds sections with all words, headings first', () => {
    expect(search(found, 'DISK').map(({ title }) => title)).toEqual(['Disk', 'Two', 'One']);
    expect(search(found, 'full disk').map(({ title, line }) => [title, line])).toEqual([
      ['Two', 'A full disk here.'],
      ['One', 'The disk is full.'],
    ]);
    expect(search(found, 'absent disk')).toEqual([]);
    expect(search(found, ' ')).toEqual([]);
  });

  it('marks the words', () => {
    expect(marked('A Disk (full)', wordsOf('disk (full'))).toEqual([
      { text: 'A ', isWord: false },
      { text: 'Disk', isWord: true },
      { text: ' ', isWord: false },
      { text: '(full', isWord: true },
      { text: ')', isWord: false },
    ]);
  });

  it('finds the ways to make room in the real documents', () => {
    expect(search(documents, 'disk full')[0]?.topic).toBe('operations');
  });
});

describe('links', () => {
  it.each([
    ['bmc.md#faults', { kind: 'page', path: '/docs/bmc#faults' }],
    ['docs/bmc.md', { kind: 'page', path: '/docs/bmc' }],
    ['#below', { kind: 'page', path: '/docs/here#below' }],
    ['design.md', { kind: 'none' }],
    ['../LICENSE', { kind: 'none' }],
    ['https://example.com', { kind: 'site', url: 'https://example.com' }],
    ['javascript:alert(1)', { kind: 'none' }],
  ])('%s', (href, target) => {
    expect(targetOf(href, 'here', ['here', 'bmc'])).toEqual(target);
  });
});

describe('a document', () => {
  it('contains no HTML of its text', () => {
    const page = shown(
      '# T\n<script>alert(1)</script>\n\n<img src=x onerror=alert(1)> a<br/>b [x](javascript:alert) ![p](p.png)',
    );
    expect(page.querySelector('script, img, a')).toBeNull();
    expect(page.querySelector('br')).not.toBeNull();
    expect(page.textContent).toContain('(picture: p)');
  });

  it('has headings with anchors, lists, code, tables and links', () => {
    const page = shown(
      '# T\n## A `b`\n1. one **two**\n\n   three\n\n```sh\n$ x <y>\n```\n\n    indented\n\n' +
        '| a | b |\n|---|---|\n| 1 | [c](bmc.md) &lt; |\n\n```mermaid\nx\n```\n\n> quoted\n',
    );
    expect(page.querySelector('h2')?.id).toBe('a-b');
    expect(page.querySelector('ol li strong')?.textContent).toBe('two');
    expect([...page.querySelectorAll('pre')].map(({ textContent }) => textContent)).toEqual(['$ x <y>', 'indented']);
    expect(page.querySelector('td a')?.getAttribute('href')).toBe('/docs/bmc');
    expect(page.querySelector('table')?.textContent).toContain('c <');
    expect(page.textContent).toContain('A diagram, which this page');
    expect(page.querySelector('blockquote')?.textContent).toBe('quoted');
  });
});
