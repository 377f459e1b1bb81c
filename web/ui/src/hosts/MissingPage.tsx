import { Alert, Breadcrumb, BreadcrumbItem, Card, CardBody, CardTitle, Content, PageSection, Stack, StackItem }
  from '@patternfly/react-core';
import { useState } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { useIsLimited } from '../access/AccessProvider';
import { diagnose, type Finding as DoctorFinding } from '../doctor/api';
import { Copyable } from '../image/Copyable';
import { ActionButton } from '../shell/ActionButton';
import { asSentence, moment } from '../shell/quantities';
import { PageStatus } from '../shell/PageStatus';
import { sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { usePageTitle } from '../shell/usePageTitle';
import { explainMissing, type Finding, type Severity } from './api';

const wait = () => 5_000;

/** Answers why a machine has not registered as a host, from the evidence of this site. */
const MissingPage = () => {
  const { answer, error } = useAnswer(explainMissing, wait);
  usePageTitle('Why is my host not here?');
  return (
    <>
      <PageSection hasBodyWrapper={false}>
        <Breadcrumb aria-label="Path">
          <BreadcrumbItem>
            <Link to="/hosts">Hosts</Link>
          </BreadcrumbItem>
          <BreadcrumbItem isActive>Why is my host not here?</BreadcrumbItem>
        </Breadcrumb>
        <Content component="h1">Why is my host not here?</Content>
        <Content component="p">
          A machine appears in the list of hosts as soon as its agent has registered. This page shows how far the
          machines of this site have come.
          {answer && ` The appliance has recorded this since ${moment(answer.since)}.`}
        </Content>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          <PageStatus failure="" error={error} hasAnswer={answer !== undefined} waiting="Reading the evidence" />
          {answer && (
            <>
              <StackItem>
                <Findings findings={answer.findings} />
              </StackItem>
              <Offers />
              <StackItem>
                <Card>
                  <CardTitle component="h2">Try this on the machine</CardTitle>
                  <CardBody>
                    <Content component="p">
                      Log in on the console of the machine, or as the user core by SSH, and run these lines.
                    </Content>
                    <Stack hasGutter>
                      {answer.lines.map(({ purpose, command }) => (
                        <StackItem key={purpose}>
                          <Content component="p">{purpose}</Content>
                          <Copyable label={purpose}>{command}</Copyable>
                        </StackItem>
                      ))}
                    </Stack>
                  </CardBody>
                </Card>
              </StackItem>
            </>
          )}
        </Stack>
      </PageSection>
    </>
  );
};

const Findings = ({ findings }: { findings: Finding[] }) => (
  <section aria-label="Findings">
    {findings.length === 0 ? (
      <Alert isInline variant="info" title="Nothing is known about machines that have not registered.">
        No machine has stopped while it read an image, no registration was refused, and each server that was booted
        has registered.
      </Alert>
    ) : (
      <Stack hasGutter component="ul" className="landfall-findings">
        {findings.map((finding) => (
          <StackItem
            component="li"
            key={`${finding.kind} ${finding.subject} ${finding.infra_env_id ?? ''} ${finding.since}`}
          >
            <OneFinding finding={finding} />
          </StackItem>
        ))}
      </Stack>
    )}
  </section>
);

const kinds: Record<Finding['kind'], string> = {
  refusal: 'Registration refused',
  read: 'Image read',
  server: 'Server booted',
  nothing: 'Image not read',
};

const severities: Record<Severity, 'danger' | 'warning' | 'info'> = {
  danger: 'danger',
  warning: 'warning',
  info: 'info',
};

const OneFinding = ({ finding }: { finding: Finding }) => (
  <Alert
    isInline
    variant={severities[finding.severity]}
    component="h2"
    title={`${kinds[finding.kind]}: ${finding.subject}`}
    data-testid="missing-finding"
  >
    <p>{asSentence(finding.sentence)}</p>
    <p>
      <strong>What to do:</strong> {finding.advice}
      {finding.bmc_id && (
        <>
          {' '}
          <Link to="/servers">Servers</Link>
        </>
      )}
    </p>
    <p className="landfall-subtle">
      Since {moment(finding.since)}
      {finding.infra_env_name ? `, infra-env ${finding.infra_env_name}` : ''}
    </p>
  </Alert>
);

/** The offers of DHCP servers. A person requests them, because all machines receive a packet. */
const Offers = () => {
  const isLimited = useIsLimited();
  const [state, setState] = useState<{ failure?: string; findings?: DoctorFinding[] }>({});
  const check = async () => {
    setState({});
    try {
      const report = await diagnose('', true);
      setState({ findings: report.findings.filter(({ area }) => area === 'offers') });
    } catch (thrown) {
      setState({ failure: sentenceOf(thrown) });
    }
  };
  if (isLimited) {
    return null;
  }
  return (
    <StackItem>
      <Card>
        <CardTitle component="h2">Addresses by DHCP</CardTitle>
        <CardBody>
          <Content component="p">
            A machine without an address can&apos;t read an image over the network. The appliance asks the DHCP servers
            of its own networks for an offer, which reserves no address.
          </Content>
          <ActionButton variant="secondary" onAct={check}>
            Check DHCP
          </ActionButton>
          <div role="status" data-testid="dhcp-offers">
            {state.failure && <Alert isInline variant="danger" title={state.failure} />}
            {state.findings?.map((found) => (
              <Alert
                key={found.subject}
                isInline
                variant={
                  found.verdict === 'green' ? 'success' : found.verdict === 'red' ? 'danger' : 'warning'
                }
                title={asSentence(`${found.subject}: ${found.answered}`)}
              >
                {found.do}
              </Alert>
            ))}
          </div>
        </CardBody>
      </Card>
    </StackItem>
  );
};

export default MissingPage;
