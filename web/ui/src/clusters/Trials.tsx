import { Button, Content } from '@patternfly/react-core';
import { useEffect, useState } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { Requires, useIsLimited } from '../access/AccessProvider';
import { diagnose } from '../doctor/api';
import { summary } from '../doctor/findings';
import { asSentence } from '../shell/quantities';
import { sentenceOf } from '../shell/request';
import { useAction } from '../shell/useAction';
import { useRehearsal } from './useRehearsal';

/** Ways to try an installation. With `isAutomatic`, the doctor checks the site without a click. */
export const Trials = ({ id, isAutomatic = false }: { id: string; isAutomatic?: boolean }) => {
  const isLimited = useIsLimited();
  return (
    <>
      {!isLimited && <Doctor id={id} isAutomatic={isAutomatic} />}
      <Requires role="operator">
        <Rehearse id={id} />
      </Requires>
    </>
  );
};

/** The doctor's verdict about the site and the cluster. */
const Doctor = ({ id, isAutomatic }: { id: string; isAutomatic: boolean }) => {
  const [verdict, setVerdict] = useState('');
  const [round, setRound] = useState(isAutomatic ? 1 : 0);
  const [answered, setAnswered] = useState(0);
  useEffect(() => {
    if (round === 0) {
      return undefined;
    }
    const left = new AbortController();
    void diagnose(id, false, left.signal)
      .then(({ findings }) => summary(findings), sentenceOf)
      .then((sentence) => {
        if (!left.signal.aborted) {
          setVerdict(sentence);
          setAnswered(round);
        }
      });
    return () => {
      left.abort();
    };
  }, [id, round]);
  const isAsking = answered < round;
  return (
    <span>
      <Button
        variant="secondary"
        size="sm"
        isLoading={isAsking}
        isDisabled={isAsking}
        onClick={() => {
          setRound(round + 1);
        }}
      >
        Check the site
      </Button>{' '}
      <span role="status" data-testid="verdict">
        {verdict} {verdict && <Link to="/doctor">Show the findings</Link>}
      </span>
    </span>
  );
};

/** Rehearses the installation with simulated hosts, and shows the result. */
const Rehearse = ({ id }: { id: string }) => {
  const { rehearsal, runs, failure, start } = useRehearsal(id);
  const { isRunning, run } = useAction();
  const failed = rehearsal?.steps.filter(({ verdict }) => verdict === 'failed') ?? [];
  return (
    <span>
      <Button
        variant="secondary"
        size="sm"
        isLoading={runs || isRunning}
        isDisabled={runs || isRunning}
        onClick={() => void run(start)}
      >
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
