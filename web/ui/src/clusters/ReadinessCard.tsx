import { Alert, Button, Card, CardBody, Content, ExpandableSection, Flex, PageSection } from '@patternfly/react-core';
import { useCallback, useState } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { Requires, useIsLimited } from '../access/AccessProvider';
import { diagnose } from '../doctor/api';
import { summary } from '../doctor/findings';
import { useRefetchOn } from '../live/useRefetchOn';
import { asSentence } from '../shell/quantities';
import { sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { readReadiness } from './api';
import { blockersOf, withoutKey } from './blockers';
import { useRehearsal } from './useRehearsal';

const seldom = () => 30_000;

/** What blocks the installation of a cluster, on each step of the wizard, and ways to try it. */
export const ReadinessCard = ({ id, status }: { id: string; status: string }) => {
  const load = useCallback((signal: AbortSignal) => readReadiness(id, signal), [id]);
  const { answer, refetch } = useAnswer(load, seldom);
  useRefetchOn(['clusters', 'hosts', 'infra-envs'], refetch, { cluster: id });
  const [expanded, setExpanded] = useState(false);
  const isLimited = useIsLimited();
  if (!answer) {
    return null;
  }
  const blockers = blockersOf(answer);
  const keyless = withoutKey(answer);
  const isReady = status === 'ready';
  const title = isReady ? 'The cluster is ready to be installed.' : blockedText(blockers.length);
  return (
    <PageSection hasBodyWrapper={false} className="landfall-readiness">
      <Card isCompact component="section" aria-label="Readiness of the cluster" data-testid="readiness">
        <CardBody>
          <Flex gap={{ default: 'gapMd' }} alignItems={{ default: 'alignItemsCenter' }}>
            <Alert
              isInline
              isPlain
              variant={isReady ? 'success' : 'info'}
              title={<span role="status">{title}</span>}
              component="h2"
            />
            {!isLimited && <Doctor id={id} />}
            <Requires role="operator">
              <Rehearse id={id} />
            </Requires>
          </Flex>
          {keyless.length > 0 && (
            <Alert isInline isPlain variant="warning" title="The discovery image has no SSH key." component="h3">
              Nobody can log in to a host that does not register. Set a key under “Add hosts”, or for all new clusters
              in the <Link to="/settings#ssh-key">settings</Link>.
            </Alert>
          )}
          {!isReady && blockers.length > 0 && (
            <ExpandableSection
              toggleText={expanded ? 'Hide what blocks the installation' : 'Show what blocks the installation'}
              isExpanded={expanded}
              onToggle={(_event, now) => {
                setExpanded(now);
              }}
            >
              <ul className="landfall-advice" data-testid="blockers">
                {blockers.map(({ key, text, name, path }) => (
                  <li key={key}>
                    {path && <Link to={path}>{name}</Link>}
                    {path && ': '}
                    {text}
                  </li>
                ))}
              </ul>
            </ExpandableSection>
          )}
        </CardBody>
      </Card>
    </PageSection>
  );
};

const blockedText = (count: number): string => {
  switch (count) {
    case 0:
      return 'The cluster is not ready to be installed yet.';
    case 1:
      return '1 thing blocks the installation.';
    default:
      return `${String(count)} things block the installation.`;
  }
};

/** The doctor's verdict about the site and the cluster, when a person asks for it. */
const Doctor = ({ id }: { id: string }) => {
  const [verdict, setVerdict] = useState('');
  const [isAsking, setAsking] = useState(false);
  const ask = async () => {
    setAsking(true);
    try {
      setVerdict(summary((await diagnose(id, false)).findings));
    } catch (error) {
      setVerdict(sentenceOf(error));
    }
    setAsking(false);
  };
  return (
    <span>
      <Button variant="secondary" size="sm" isLoading={isAsking} isDisabled={isAsking} onClick={() => void ask()}>
        Check the site
      </Button>{' '}
      <span role="status">
        {verdict} {verdict && <Link to="/doctor">Show the findings</Link>}
      </span>
    </span>
  );
};

/** Rehearses the installation with simulated hosts, and shows the result. */
const Rehearse = ({ id }: { id: string }) => {
  const { rehearsal, runs, failure, start } = useRehearsal(id);
  const failed = rehearsal?.steps.filter(({ verdict }) => verdict === 'failed') ?? [];
  return (
    <span>
      <Button variant="secondary" size="sm" isLoading={runs} isDisabled={runs} onClick={() => void start()}>
        Rehearse
      </Button>{' '}
      <span role="status" data-testid="rehearsal">
        {runs && `The rehearsal runs${rehearsal?.doing ? `: ${rehearsal.doing}` : ''}.`}
        {rehearsal?.state === 'done' && (rehearsal.passed ? 'The rehearsal passed.' : 'The rehearsal failed.')}
        {failure}
      </span>
      {failed.map(({ name, said, do: advice }) => (
        <Content key={name} component="p">
          <strong>{name}</strong>: {asSentence(said)} {advice && asSentence(advice)}
        </Content>
      ))}
    </span>
  );
};
