import {
  Alert,
  Button,
  Content,
  Flex,
  FlexItem,
  Grid,
  GridItem,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { Link } from 'react-router-dom-v5-compat';
import { Requires } from '../access/AccessProvider';
import { FleetCard } from '../fleet/FleetCard';
import { LinkButton } from '../shell/LinkButton';
import { save } from '../shell/download';
import { PageStatus } from '../shell/PageStatus';
import { moment } from '../shell/quantities';
import { usePageTitle } from '../shell/usePageTitle';
import type { Overview } from './api';
import { Attention } from './Attention';
import { DiskCard } from './DiskCard';
import { asCSV } from './export';
import { Health } from './Health';
import { Installations } from './Installations';
import type { Setup } from './setup';
import { StatesCard } from './StatesCard';

type Props = {
  setup: Setup | undefined;
  site: Overview | undefined;
  /** The error of the last request for them. */
  error: Error | undefined;
};

/** The site at a glance: what needs a person, what is under way, and the health of its parts. */
const OverviewPage = ({ setup, site: answer, error }: Props) => {
  usePageTitle('Overview');
  return (
    <div data-testid="overview">
      <PageSection hasBodyWrapper={false}>
        <Flex justifyContent={{ default: 'justifyContentSpaceBetween' }}>
          <FlexItem>
            <Content component="h1">Overview</Content>
            {answer && <Content component="small">State of {moment(answer.at)}</Content>}
          </FlexItem>
          {answer && <Actions overview={answer} />}
        </Flex>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          <PageStatus
            failure=""
            error={error}
            hasAnswer={answer !== undefined}
            waiting="Reading the overview"
          />
          {setup?.complete === false && (
            <StackItem>
              <Alert isInline variant="info" title="The site is not set up completely.">
                <Link to="/setup">Show the steps</Link>
              </Alert>
            </StackItem>
          )}
          {answer && (
            <StackItem>
              <Grid hasGutter>
                <GridItem lg={8}>
                  <Stack hasGutter>
                    <Attention overview={answer} />
                    <Installations installations={answer.installations} />
                    <Health overview={answer} setup={setup} />
                    {answer.fleet && <FleetCard />}
                  </Stack>
                </GridItem>
                <GridItem lg={4}>
                  <Stack hasGutter>
                    <StatesCard noun="cluster" counts={answer.clusters} path="/assisted-installer/clusters" />
                    <StatesCard noun="host" counts={answer.hosts} path="/hosts" />
                    <DiskCard disk={answer.disk} />
                  </Stack>
                </GridItem>
              </Grid>
            </StackItem>
          )}
        </Stack>
      </PageSection>
    </div>
  );
};

export default OverviewPage;

const Actions = ({ overview }: { overview: Overview }) => (
  <Flex className="landfall-not-printed" gap={{ default: 'gapSm' }}>
    <Requires role="operator">
      <LinkButton to="/assisted-installer/clusters/~new">Create a cluster</LinkButton>
    </Requires>
    <Button
      variant="secondary"
      onClick={() => {
        window.print();
      }}
    >
      Print
    </Button>
    <Button
      variant="secondary"
      onClick={() => {
        save('landfall-overview.csv', new Blob([asCSV(overview)], { type: 'text/csv' }));
      }}
    >
      Export as CSV
    </Button>
    <Button
      variant="secondary"
      onClick={() => {
        const text = JSON.stringify(overview, undefined, 2);
        save('landfall-overview.json', new Blob([text], { type: 'application/json' }));
      }}
    >
      Export as JSON
    </Button>
  </Flex>
);
