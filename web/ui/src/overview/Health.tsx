import { Label } from '@patternfly/react-core';
import { Link } from 'react-router-dom-v5-compat';
import { readAms } from '../ams/api';
import { listProofs } from '../mirror/api';
import { useAnswer } from '../shell/useAnswer';
import type { Overview } from './api';
import { ofAms, ofProof, ofServers, ofSetup, type HealthLine } from './health';
import { OverviewCard } from './OverviewCard';
import type { Setup } from './setup';

const seldom = () => 30_000;
const amsStatus = (signal: AbortSignal) => readAms({ state: '', name: '', offset: 0, limit: 1 }, signal);

/** The health of the site's parts, each with a link to its page. */
export const Health = ({ overview, setup }: { overview: Overview; setup: Setup | undefined }) => {
  const { answer: proofs } = useAnswer(listProofs, seldom);
  const { answer: ams } = useAnswer(amsStatus, seldom);
  const lines = [
    ...(setup ? ofSetup(setup) : []),
    ...(proofs ? [ofProof(proofs[0])] : []),
    ofServers(overview),
    ...(ams ? [ofAms(ams)] : []),
  ];
  return (
    <OverviewCard id="health" title="Site">
      <ul className="landfall-lines">{lines.map((line) => line && <Line key={line.id} line={line} />)}</ul>
    </OverviewCard>
  );
};

const Line = ({ line: { title, path, tone, word, text } }: { line: HealthLine }) => (
  <li className="landfall-line">
    <span className="landfall-line-state">
      <Label isCompact {...(tone && { status: tone })}>
        {word}
      </Label>
    </span>
    <span className="landfall-line-text">
      <Link to={path}>{title}</Link> <span className="landfall-subtle">{text}</span>
    </span>
  </li>
);
