package maestro

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/record"
	"landfall/appliance/hosted/search"
	"landfall/store"
	"landfall/web/operation"
	"landfall/web/problem"
)

// consumerBody is the body of requests about consumers.
type consumerBody struct {
	ID     string             `json:"id,omitempty"`
	Kind   string             `json:"kind,omitempty"`
	Href   string             `json:"href,omitempty"`
	Name   string             `json:"name,omitempty"`
	Labels *map[string]string `json:"labels,omitempty"`
}

func consumerObject(consumer *bundle.Consumer) object {
	answer := object{"id": consumer.ID, "kind": "Consumer", "href": Root + "/consumers/" + consumer.ID,
		"name": consumer.Name, "created_at": rfc3339(consumer.Created), "updated_at": rfc3339(consumer.Updated)}
	if len(consumer.Labels) > 0 {
		answer["labels"] = consumer.Labels
	}
	return answer
}

// consumer returns the consumer in the path, by its ID or name.
func (s service) consumer(c echo.Context) (found *bundle.Consumer, err error) {
	wanted := c.Param("id")
	return found, s.db.View(func(tx *store.Tx) error {
		if found, err = bundle.GetConsumer(tx, wanted); err == nil || !errors.Is(err, bundle.ErrNotFound) {
			return err
		}
		if err := bundle.EachConsumer(tx, func(consumer *bundle.Consumer) error {
			if consumer.ID == wanted {
				found = consumer
				return store.ErrStop
			}
			return nil
		}); err != nil {
			return err
		}
		if found == nil {
			return problem.NotFound("Consumer with id='%s' not found", wanted)
		}
		return nil
	})
}

func (s service) listConsumers(c echo.Context) error {
	q, err := readQuery(c, search.ConsumerColumns)
	if err != nil {
		return err
	}
	var found []row
	if err := s.db.View(func(tx *store.Tx) error {
		return bundle.EachConsumer(tx, func(consumer *bundle.Consumer) error {
			value := object{"id": consumer.ID, "name": consumer.Name, "created_at": consumer.Created,
				"updated_at": consumer.Updated}
			return q.add(&found, row{func(path []string) any { return value[path[0]] }, func() (object, error) {
				return consumerObject(consumer), nil
			}})
		})
	}); err != nil {
		return err
	}
	answer, err := q.list("ConsumerList", found)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, answer)
}

func (s service) getConsumer(c echo.Context) error {
	consumer, err := s.consumer(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, consumerObject(consumer))
}

func (s service) postConsumer(c echo.Context) error {
	var body consumerBody
	if err := operation.ReadJSON(c, &body); err != nil {
		return err
	}
	if body.ID != "" {
		return problem.BadRequest("id must be empty")
	}
	consumer := &bundle.Consumer{Name: body.Name}
	if body.Labels != nil {
		consumer.Labels = *body.Labels
	}
	if err := s.db.Update(c.Request().Context(), func(tx *store.Tx) error {
		return bundle.CreateConsumer(tx, consumer, s.Provider.Clock.Now())
	}); err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, consumerObject(consumer))
}

func (s service) patchConsumer(c echo.Context) error {
	var body consumerBody
	if err := operation.ReadJSON(c, &body); err != nil {
		return err
	}
	consumer, err := s.consumer(c)
	if err != nil {
		return err
	}
	if body.Name != "" && body.Name != consumer.Name {
		return problem.BadRequest("The name of a consumer can't change")
	}
	if body.Labels == nil {
		return c.JSON(http.StatusOK, consumerObject(consumer))
	}
	if err := s.db.Update(c.Request().Context(), func(tx *store.Tx) error {
		consumer, err = bundle.UpdateConsumer(tx, consumer.Name, s.Provider.Clock.Now(),
			func(held *bundle.Consumer) error {
				held.Labels = *body.Labels
				return nil
			})
		return err
	}); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, consumerObject(consumer))
}

func (s service) deleteConsumer(c echo.Context) error {
	consumer, err := s.consumer(c)
	if err != nil {
		return err
	}
	if err := s.db.Update(c.Request().Context(), func(tx *store.Tx) error {
		m, err := record.GetManagement(tx, consumer.Name)
		if err != nil {
			return err
		}
		if m != nil {
			return problem.Conflict("%s is a management cluster; remove it with landfall hcp consumers remove",
				consumer.Name)
		}
		return maestro.DeleteConsumer(tx, consumer.Name)
	}); err != nil {
		return err
	}
	s.Disconnect(consumer.Name)
	return c.NoContent(http.StatusNoContent)
}

// Connection is what is known about the connection to a management cluster.
type Connection struct {
	Consumer string `json:"consumer"`
	// Broker is the broker's address; "": the appliance has no broker.
	Broker string `json:"broker"`
	// Problem says why the agent can't find the broker, or is "".
	Problem   string             `json:"problem,omitempty"`
	Connected *broker.Connection `json:"connected,omitempty"`
	// SeenAt is the time of the last message; "": never.
	SeenAt      string              `json:"seen_at,omitempty"`
	Refused     *broker.Refusal     `json:"refused,omitempty"`
	Clock       *maestro.ClockFault `json:"clock,omitempty"`
	Hold        *maestro.Hold       `json:"hold,omitempty"`
	Findings    []Finding           `json:"findings"`
	Credentials []broker.Credential `json:"credentials"`
}

// Finding is a finding with its sentence.
type Finding struct {
	*maestro.Finding
	Sentence string `json:"sentence"`
}

func (s service) connection(c echo.Context) error {
	consumer, err := s.consumer(c)
	if err != nil {
		return err
	}
	answer := Connection{Consumer: consumer.Name, Findings: []Finding{}}
	if s.Broker != nil {
		answer.Broker = s.Broker.Address().String()
		if connected, ok := s.Broker.Connections()[consumer.Name]; ok {
			answer.Connected = &connected
		}
		if refused, ok := s.Broker.Refusals()[consumer.Name]; ok {
			answer.Refused = &refused
		}
	}
	if !consumer.Seen.IsZero() {
		answer.SeenAt = rfc3339(consumer.Seen)
	}
	if clock, ok := s.Maestro.ClockFaults()[consumer.Name]; ok {
		answer.Clock = &clock
	}
	if err := s.db.View(func(tx *store.Tx) error {
		if answer.Hold, err = maestro.GetHold(tx, consumer.Name); err != nil {
			return err
		}
		m, err := record.GetManagement(tx, consumer.Name)
		if store.SkipDamaged(err) != nil { // the rest helps to find out what is wrong
			return err
		}
		if m != nil {
			answer.Problem = s.BrokerProblem(m)
		}
		if answer.Credentials, err = broker.ListCredentials(tx, consumer.Name); err != nil {
			return err
		}
		return maestro.EachFinding(tx, consumer.Name, func(f *maestro.Finding) error {
			answer.Findings = append(answer.Findings, Finding{f, f.Sentence()})
			return nil
		})
	}); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, answer)
}

// Credentials are a new client certificate and what an agent's configuration needs beside it.
type Credentials struct {
	broker.Credential
	Certificate string `json:"certificate"` // PEM
	Key         string `json:"key"`         // PEM
	// CA contains the certificates (PEM) with which the agent verifies the broker.
	CA string `json:"ca"`
	// SourceEvents and AgentEvents are the topics.
	SourceEvents string `json:"source_events"`
	AgentEvents  string `json:"agent_events"`
}

func (s service) issue(c echo.Context) error {
	consumer, err := s.consumer(c)
	if err != nil {
		return err
	}
	if err := s.CheckPort(); err != nil {
		return err
	}
	issued, err := s.Credentials.Issue(c.Request().Context(), consumer.Name)
	if err != nil {
		return err
	}
	answer := Credentials{Credential: issued.Credential, Certificate: string(issued.Certificate),
		Key: string(issued.Key), CA: string(s.Roots)}
	answer.SourceEvents, answer.AgentEvents = broker.Topics(consumer.Name)
	return c.JSON(http.StatusCreated, answer)
}

func (s service) revoke(c echo.Context) error {
	consumer, err := s.consumer(c)
	if err != nil {
		return err
	}
	if err := s.Credentials.Revoke(c.Request().Context(), consumer.Name, c.Param("serial"), false); err != nil {
		return err
	}
	s.Disconnect(consumer.Name) // an agent with another certificate connects again
	return c.NoContent(http.StatusNoContent)
}
