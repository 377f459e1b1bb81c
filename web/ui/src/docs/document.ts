import { Lexer, type Token, type Tokens } from 'marked';

/** A part of a document, from a heading to the next one of level 2 or 3. */
export type Section = { topic: string; title: string; anchor: string; level: number; text: string };

export type Document = {
  topic: string;
  title: string;
  tokens: Token[];
  /** The first one is the text before the first heading of level 2. */
  sections: Section[];
  /** The anchors of the headings, in their order. */
  anchors: Map<Token, string>;
};

/** The text of a heading or a paragraph without its marks. */
export const plainOf = (tokens: readonly Token[] | undefined): string =>
  (tokens ?? [])
    .map((token) => {
      if (token.type === 'html' || token.type === 'br') {
        return ' ';
      }
      if ('tokens' in token && token.tokens) {
        return plainOf(token.tokens);
      }
      return 'text' in token ? String(token.text) : '';
    })
    .join('');

/** The name of a heading in links, as GitHub and `landfall docs` make it. */
export const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^a-z0-9 _-]/g, '')
    .replaceAll(' ', '-');

/** Parses a document. Its topic is the name of its file. */
export const parse = (topic: string, markdown: string): Document => {
  const tokens = new Lexer({ gfm: true }).lex(markdown);
  const anchors = new Map<Token, string>();
  const used = new Map<string, number>();
  const sections: Section[] = [{ topic, title: topic, anchor: '', level: 1, text: '' }];
  for (const token of tokens) {
    if (token.type === 'heading') {
      const { depth, tokens: parts } = token as Tokens.Heading;
      const title = plainOf(parts).trim();
      const name = anchorOf(title);
      const count = used.get(name) ?? 0;
      used.set(name, count + 1);
      const anchor = count === 0 ? name : `${name}-${String(count)}`;
      anchors.set(token, anchor);
      if (depth === 1 && sections.length === 1) {
        sections[0] = { topic, title, anchor: '', level: 1, text: '' };
      } else if (depth === 2 || depth === 3) {
        sections.push({ topic, title, anchor, level: depth, text: '' });
      }
    }
    const section = sections.at(-1);
    if (section && token.type !== 'html') {
      section.text += token.raw;
    }
  }
  return { topic, title: sections[0]?.title ?? topic, tokens, sections, anchors };
};

/** A section that contains all words, with the line that contains most of them. */
export type Match = Section & { line: string };

/** The most matches that are shown. */
export const maxMatches = 20;

const maxCount = 5;
const titleCount = 10;

/**
 * Finds the sections that contain all words, the best first. A word in the heading counts more.
 */
export const search = (documents: readonly Document[], words: string): Match[] => {
  const wanted = wordsOf(words);
  if (wanted.length === 0) {
    return [];
  }
  const found: { match: Match; score: number }[] = [];
  for (const section of documents.flatMap(({ sections }) => sections)) {
    const text = section.text.toLowerCase();
    const title = section.title.toLowerCase();
    const counts = wanted.map((word) => text.split(word).length - 1);
    if (counts.every((count) => count > 0)) {
      const score =
        counts.reduce((sum, count) => sum + Math.min(count, maxCount), 0) +
        titleCount * wanted.filter((word) => title.includes(word)).length;
      found.push({ match: { ...section, line: bestLine(section.text, wanted) }, score });
    }
  }
  return found.sort((a, b) => b.score - a.score).map(({ match }) => match);
};

export const wordsOf = (words: string): string[] => words.toLowerCase().split(/\s+/).filter(Boolean);

const bestLine = (text: string, words: readonly string[]): string => {
  let best = '';
  let most = 0;
  for (const line of text.split('\n')) {
    const count = words.filter((word) => line.toLowerCase().includes(word)).length;
    if (count > most && !line.startsWith('#')) {
      most = count;
      best = line;
    }
  }
  return best.replaceAll(/\]\([^)\s]*\)/g, '').replaceAll(/[[\]`*|]/g, ' ').replaceAll(/\s+/g, ' ').trim();
};

/** Splits a text into parts that are or are not one of the words. */
export const marked = (text: string, words: readonly string[]): { text: string; isWord: boolean }[] => {
  if (words.length === 0) {
    return [{ text, isWord: false }];
  }
  const pattern = words.map((word) => word.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|');
  return text
    .split(new RegExp(`(${pattern})`, 'gi'))
    .map((part, i) => ({ text: part, isWord: i % 2 === 1 }))
    .filter((part) => part.text !== '');
};

/** What a link of a document leads to. */
export type Target =
  | { kind: 'page'; path: string }
  | { kind: 'site'; url: string }
  /** A file that only the source code has. */
  | { kind: 'none' };

/** Resolves a link of a document: other documents become pages. */
export const targetOf = (href: string, topic: string, topics: readonly string[]): Target => {
  if (/^(https?|mailto):/i.test(href)) {
    return { kind: 'site', url: href };
  }
  if (/^[a-z][a-z0-9+.-]*:/i.test(href)) {
    return { kind: 'none' };
  }
  const [file = '', anchor = ''] = href.split('#');
  const name = file === '' ? topic : topicOf(file);
  if (name === undefined || !topics.includes(name)) {
    return { kind: 'none' };
  }
  return { kind: 'page', path: `/docs/${name}${anchor ? `#${anchor}` : ''}` };
};

/** The topic of a Markdown file; undefined for other files. */
export const topicOf = (path: string): string | undefined => {
  const name = /(?:^|\/)([^/]+)\.md$/.exec(path)?.[1];
  return name?.toLowerCase();
};

/** Parses the files, the README first, the others by their titles. */
export const library = (files: Record<string, string>): Document[] =>
  Object.entries(files)
    .map(([path, text]) => parse(topicOf(path) ?? path, text))
    .sort((a, b) =>
      a.topic === 'readme' ? -1 : b.topic === 'readme' ? 1 : a.title.localeCompare(b.title, 'en'),
    );
