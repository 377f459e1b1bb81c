import { Content, Label } from '@patternfly/react-core';
import { Link } from 'react-router-dom-v5-compat';
import { asSentence } from '../shell/quantities';
import type { Item, Overview } from './api';
import { OverviewCard } from './OverviewCard';
import { pathOf, wordOf } from './words';

const nouns = {
  cluster: 'Cluster',
  host: 'Host',
  server: 'Server',
  'management-cluster': 'Management cluster',
  replica: 'Replica in',
  backups: 'Backups in',
} as const;

/** What needs a person now, the most urgent first. */
export const Attention = ({ overview: { attention, attention_total: total } }: { overview: Overview }) => (
  <OverviewCard id="attention" title="Needs a person now">
    {attention.length === 0 && <Content component="p">Nothing needs a person.</Content>}
    {attention.length > 0 && (
      <ul className="landfall-lines">
        {attention.map((item) => (
          <Line key={`${item.kind}/${item.id}`} item={item} />
        ))}
      </ul>
    )}
    {total > attention.length && (
      <Content component="small">{String(total - attention.length)} more.</Content>
    )}
  </OverviewCard>
);

const Line = ({ item }: { item: Item }) => {
  const { text, tone } = wordOf(item);
  return (
    <li className="landfall-line">
      <span className="landfall-line-state">
        <Label isCompact {...(tone && { status: tone })}>
          {text}
        </Label>
      </span>
      <span className="landfall-line-text">
        <Link to={pathOf(item)}>
          {nouns[item.kind]} {item.name}
        </Link>
        <span className="landfall-subtle"> {asSentence(item.status_info)}</span>
      </span>
    </li>
  );
};
