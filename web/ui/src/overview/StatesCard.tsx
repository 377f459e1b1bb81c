import { Content, Label } from '@patternfly/react-core';
import { Link } from 'react-router-dom-v5-compat';
import { OverviewCard } from './OverviewCard';
import { counted, statesOf, sum } from './words';

type Props = {
  noun: 'cluster' | 'host';
  counts: Record<string, number>;
  /** The page with all of them. */
  path?: string;
};

/** The number of clusters or hosts in each state. */
export const StatesCard = ({ noun, counts, path }: Props) => {
  const title = counted(sum(counts), noun);
  return (
    <OverviewCard id={`${noun}s`} title={title}>
      {sum(counts) === 0 && (
        <Content component="p">
          {noun === 'cluster' ? 'No cluster yet.' : 'No host yet: boot one from the image of a cluster.'}
        </Content>
      )}
      <ul className="landfall-lines">
        {statesOf(noun, counts).map(({ text, tone, count }) => (
          <li key={text} className="landfall-count">
            <Label isCompact {...(tone && { status: tone })}>
              {text}
            </Label>
            <strong>{count}</strong>
          </li>
        ))}
      </ul>
      {path && <Link to={path}>All {noun}s</Link>}
    </OverviewCard>
  );
};
