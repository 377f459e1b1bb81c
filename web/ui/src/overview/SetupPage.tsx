import { PageSection } from '@patternfly/react-core';
import { PageStatus } from '../shell/PageStatus';
import { Checklist } from './Checklist';
import { useSetup } from './useSetup';

/** The checklist, also after the site is set up. */
const SetupPage = () => {
  const { answer, error } = useSetup();
  return answer ? (
    <Checklist setup={answer} />
  ) : (
    <PageSection hasBodyWrapper={false} isFilled>
      <PageStatus failure="" error={error} hasAnswer={false} waiting="Reading the state of the site" />
    </PageSection>
  );
};

export default SetupPage;
