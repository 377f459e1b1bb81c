import { Content } from '@patternfly/react-core';
import { useCallback } from 'react';
import { moment } from '../shell/quantities';
import { SectionCard } from '../shell/SectionCard';
import { useAnswer } from '../shell/useAnswer';
import { readClusterRegistry } from './api';

const seldom = () => 60_000;

/** Whether a cluster depends on the appliance's registry, and when that was away. */
export const RegistryCard = ({ id }: { id: string }) => {
  const load = useCallback((signal: AbortSignal) => readClusterRegistry(id, signal), [id]);
  const { answer } = useAnswer(load, seldom);
  if (!answer || (!answer.depends && answer.absences.length === 0)) {
    return null;
  }
  const { depends, message, absences } = answer;
  return (
    <SectionCard id="cluster-registry" title="Registry of the appliance">
      <Content component="p">
        {depends ? message : 'The cluster does not depend on the registry of this appliance any more.'}
      </Content>
      {absences.length > 0 && (
        <>
          <h3 className="landfall-step-title">Times without the registry</h3>
          <ul className="landfall-advice">
            {absences.map(({ from, to }) => (
              <li key={from} data-testid="absence">
                {`From ${moment(from)} to ${moment(to)}`}
              </li>
            ))}
          </ul>
        </>
      )}
    </SectionCard>
  );
};
