import { Banner, Flex, FlexItem, Spinner } from '@patternfly/react-core';
import { useFeedState } from '../live/LiveProvider';

/** A line above the page while the appliance does not answer; it goes by itself when the appliance is back. */
export const Away = () => {
  if (useFeedState() !== 'away') {
    return null;
  }
  return (
    <Banner color="orange" screenReaderText="Warning:" role="status" data-testid="away">
      <Flex justifyContent={{ default: 'justifyContentCenter' }} gap={{ default: 'gapSm' }}>
        <FlexItem>
          <Spinner size="sm" aria-hidden />
        </FlexItem>
        <FlexItem>The appliance is not answering; retrying</FlexItem>
      </Flex>
    </Banner>
  );
};
