import { InfraEnvsService } from '@openshift-assisted/ui-lib/ocm';
import { useCallback } from 'react';
import { CpuArchitecture } from 'ui-lib/common/types/cpuArchitecture';
import { shownPage } from '../live/page';
import { useAnswer, type AnswerState } from '../shell/useAnswer';

/** Sends a request about the infra-env of the cluster on the page; see `useAnswer`. */
export const useShownInfraEnv = <T>(
  load: (infraEnvId: string, signal: AbortSignal) => Promise<T>,
  wait: (answer: T | undefined) => number | undefined,
): AnswerState<T> => {
  const askOfShown = useCallback(
    async (signal: AbortSignal) => {
      const page = shownPage(window.location.pathname);
      if (page.name !== 'cluster') {
        throw new Error('The page shows no cluster.');
      }
      const id = await InfraEnvsService.getInfraEnvId(
        page.clusterId,
        CpuArchitecture.USE_DAY1_ARCHITECTURE,
      );
      if (typeof id !== 'string') {
        throw id;
      }
      return load(id, signal);
    },
    [load],
  );
  return useAnswer(askOfShown, wait);
};
