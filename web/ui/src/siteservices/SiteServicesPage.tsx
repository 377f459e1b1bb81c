import { Alert, List, ListItem, StackItem } from '@patternfly/react-core';
import { useState } from 'react';
import { useRefetchOn } from '../live/useRefetchOn';
import { Help } from '../shell/Help';
import { PageFrame } from '../shell/PageFrame';
import { useAct } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { AddressCards } from './AddressCards';
import { readServices, type ServiceName, type Services } from './api';
import { EnableDialog } from './EnableDialog';
import { RecordsCard } from './RecordsCard';
import { ServiceCard } from './ServiceCard';
import { services } from './words';

const often = 1_000;
const seldom = 4_000;
const wait = (answer: Services | undefined) =>
  answer?.services.some(({ state }) => state === 'looking') ? often : seldom;

type Wanted = { service: ServiceName; on: string };

/** The page of the network services for a site that has none. */
const SiteServicesPage = () => {
  const { answer, error, refetch } = useAnswer(readServices, wait);
  const [wanted, setWanted] = useState<Wanted>();
  const { act, failure } = useAct(refetch);
  useRefetchOn(['clusters', 'hosts'], refetch, { interval: seldom });
  return (
    <>
      <PageFrame
        title="Site services"
        about={
          <>
            Network services for a site that has none. Each is off until you switch it on for an interface of the
            appliance&apos;s machine. A service first looks whether another server answers there, and then does not
            start.{' '}
            <Help to="siteservices">About these services</Help>
          </>
        }
        failure={failure}
        error={error}
        hasAnswer={answer !== undefined}
        waiting="Reading the services of the site"
      >
        {answer && (
          <>
            {answer.departure.length > 0 && (
              <StackItem>
                <Alert isInline variant="warning" title="When the appliance leaves" data-testid="departure">
                  <List>
                    {answer.departure.map((text) => (
                      <ListItem key={text}>{text}</ListItem>
                    ))}
                  </List>
                </Alert>
              </StackItem>
            )}
            {services.map(({ id }) => (
              <StackItem key={id}>
                <ServiceCard
                  service={id}
                  site={answer}
                  act={act}
                  onEnable={(on) => {
                    setWanted({ service: id, on });
                  }}
                />
              </StackItem>
            ))}
            <StackItem>
              <RecordsCard dns={answer.dns} />
            </StackItem>
          </>
        )}
        <AddressCards act={act} isShown={answer !== undefined || error !== undefined} />
      </PageFrame>
      {wanted && (
        <EnableDialog
          service={wanted.service}
          on={wanted.on}
          onClose={() => {
            setWanted(undefined);
            refetch();
          }}
        />
      )}
    </>
  );
};

export default SiteServicesPage;
