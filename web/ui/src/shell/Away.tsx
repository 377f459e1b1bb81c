import { Banner, Flex, FlexItem, Spinner } from '@patternfly/react-core';
import { useFeedState } from '../live/LiveProvider';

/** A banner above the page while the appliance does not respond. */
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
        <FlexItem>The appliance does not respond; retrying</FlexItem>
      </Flex>
    </Banner>
  );
};
