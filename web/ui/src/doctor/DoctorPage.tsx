import {
  Alert,
  Bullseye,
  Button,
  Checkbox,
  Content,
  FormSelect,
  FormSelectOption,
  Label,
  PageSection,
  Spinner,
  Stack,
  StackItem,
  Toolbar,
  ToolbarContent,
  ToolbarItem,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useCallback, useState } from 'react';
import { sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { usePageTitle } from '../shell/usePageTitle';
import { diagnose, listClusters, type Finding, type Report, type Severity } from './api';
import { inOrder, summary, titleOf } from './findings';

const clusterListEvery = 10_000;
const everyTime = () => clusterListEvery;
const once = () => undefined;
/** The checks of the mirror alone may take a minute. */
const limit = 5 * 60_000;

/** The page of the doctor: findings about the site that may prevent an installation. */
const DoctorPage = () => {
  const clusters = useAnswer(listClusters, everyTime).answer ?? [];
  const [cluster, setCluster] = useState('');
  const [withPassed, setWithPassed] = useState(false);
  const [dhcp, setDHCP] = useState(false);
  const [isChecking, setChecking] = useState(false);
  const load = useCallback(
    (signal: AbortSignal) => {
      setChecking(true);
      return diagnose(cluster, dhcp, signal).finally(() => {
        // An aborted check has a successor, which still runs.
        if (!signal.aborted) {
          setChecking(false);
        }
      });
    },
    [cluster, dhcp],
  );
  const { answer, error, refetch } = useAnswer(load, once, limit);
  usePageTitle('Doctor');
  return (
    <>
      <PageSection hasBodyWrapper={false}>
        <Content component="h1">Doctor</Content>
        <Content component="p">
          Checks whether the site is ready for an installation, from the machine that runs Landfall. If you choose a
          cluster, its names, its addresses and the reports of its hosts are checked too.
        </Content>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Toolbar>
          <ToolbarContent alignItems="center">
            <ToolbarItem>
              <FormSelect
                aria-label="Cluster"
                value={cluster}
                onChange={(_event, value) => {
                  setCluster(value);
                }}
              >
                <FormSelectOption value="" label="The site, without a cluster" />
                {clusters.map(({ id, name }) => (
                  <FormSelectOption key={id} value={id} label={`Cluster ${name}`} />
                ))}
              </FormSelect>
            </ToolbarItem>
            <ToolbarItem>
              <Button
                variant="secondary"
                isAriaDisabled={isChecking}
                isLoading={isChecking}
                onClick={() => {
                  if (!isChecking) {
                    refetch();
                  }
                }}
              >
                Check again
              </Button>
            </ToolbarItem>
            <ToolbarItem>
              <span role="status">{isChecking && 'Checking the site. This may take some minutes.'}</span>
            </ToolbarItem>
            <ToolbarItem>
              <Checkbox
                id="dhcp"
                label="Query DHCP servers"
                isChecked={dhcp}
                onChange={(_event, checked) => {
                  setDHCP(checked);
                }}
              />
            </ToolbarItem>
            <ToolbarItem>
              <Checkbox
                id="with-passed"
                label="Show passed checks"
                isChecked={withPassed}
                onChange={(_event, checked) => {
                  setWithPassed(checked);
                }}
              />
            </ToolbarItem>
          </ToolbarContent>
        </Toolbar>
        <Outcome report={answer} error={error} withPassed={withPassed} />
      </PageSection>
    </>
  );
};

export default DoctorPage;

type OutcomeProps = { report: Report | undefined; error: Error | undefined; withPassed: boolean };

const Outcome = ({ report, error, withPassed }: OutcomeProps) => {
  if (error) {
    return <Alert isInline variant="danger" title={sentenceOf(error)} />;
  }
  if (!report) {
    return (
      <Bullseye>
        <Spinner aria-label="Checking the site" />
      </Bullseye>
    );
  }
  const shown = inOrder(report.findings, withPassed);
  return (
    <Stack hasGutter>
      <StackItem>
        <Alert isInline variant={alerts[report.verdict]} title={summary(report.findings)} data-testid="summary">
          Checked at {new Date(report.at).toLocaleTimeString()}.
        </Alert>
      </StackItem>
      <StackItem>{shown.length > 0 && <Findings findings={shown} />}</StackItem>
    </Stack>
  );
};

const alerts = { red: 'danger', amber: 'warning', unknown: 'info', green: 'success' } as const;
const colors = { red: 'red', amber: 'orange', unknown: 'grey', green: 'green' } as const;
const words: Record<Severity, string> = { red: 'Failed', amber: 'Warning', unknown: 'Unknown', green: 'Passed' };

const Findings = ({ findings }: { findings: Finding[] }) => (
  <Table aria-label="Findings" variant="compact" data-testid="findings">
    <Thead>
      <Tr>
        <Th width={10}>Result</Th>
        <Th width={10}>About</Th>
        <Th width={20}>Checked</Th>
        <Th width={25}>Found</Th>
        <Th>Remedy</Th>
      </Tr>
    </Thead>
    <Tbody>
      {findings.map((finding) => (
        <Tr key={[finding.area, finding.subject, finding.asked].join('\n')} data-testid="finding">
          <Td dataLabel="Result">
            <Label color={colors[finding.verdict]}>{words[finding.verdict]}</Label>
          </Td>
          <Td dataLabel="About">{titleOf(finding.area)}</Td>
          <Td dataLabel="Checked" modifier="breakWord">
            {finding.subject}
            <Content component="small">{finding.asked}</Content>
          </Td>
          <Td dataLabel="Found" modifier="breakWord">
            {finding.answered}
          </Td>
          <Td dataLabel="Remedy" modifier="breakWord">
            {finding.do}
          </Td>
        </Tr>
      ))}
    </Tbody>
  </Table>
);
