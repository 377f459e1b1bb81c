package engine

import (
	"context"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access/machine"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
)

// newAgentKeys returns the keys of a new infra-env. They are empty if the appliance does not
// authenticate machines.
func (e *Engine) newAgentKeys(infraEnvID string) (keys machine.Keys, err error) {
	if e.options.Tokens == nil {
		return keys, nil
	}
	now := e.options.Clock.Now().UTC()
	keys.Embed(true, false, now)
	keys.Current, err = e.options.Tokens.NewKey(infraEnvID, now)
	return keys, err
}

// token returns a token for the images of an infra-env, or "" if the appliance does not
// authenticate machines.
func (e *Engine) token(row *record.InfraEnv, use machine.Use) (string, error) {
	if e.options.Tokens == nil || row.AgentKeys.Current == nil {
		return "", nil
	}
	return e.options.Tokens.Token(&row.AgentKeys, row.API.ID.String(), use)
}

// embedTokens records whether the images of an infra-env contain tokens by the present
// configuration, and generates its first key. It returns the present row.
func (e *Engine) embedTokens(ctx context.Context, row *record.InfraEnv) (*record.InfraEnv, error) {
	embed := e.options.Tokens != nil
	if embed == !row.AgentKeys.Since.IsZero() {
		return row, nil
	}
	id := row.API.ID.String()
	first, err := e.newAgentKeys(id)
	if err != nil {
		return nil, err
	}
	err = e.update(ctx, func(c *change) error {
		if row, err = c.infraEnv(id); err != nil {
			return err
		}
		if row.AgentKeys.Current == nil {
			row.AgentKeys.Current = first.Current
		}
		row.AgentKeys.Embed(embed, row.Recipe.Digest != "", c.now)
		c.saveInfraEnv(row)
		return nil
	})
	return row, err
}

// KeyChange changes the keys of an infra-env and returns the text of an event.
type KeyChange func(env *models.InfraEnv, keys *machine.Keys) (text string, err error)

// ChangeAgentKeys changes the keys of an infra-env. Later images contain a token of the changed
// keys.
func (e *Engine) ChangeAgentKeys(ctx context.Context, infraEnvID string, fn KeyChange) error {
	return e.update(ctx, func(c *change) error {
		row, err := c.infraEnv(infraEnvID)
		if err != nil {
			return err
		}
		return c.changeAgentKeys(row, fn)
	})
}

// ReplaceAgentKeys is like ChangeAgentKeys, and replaces the code of the infra-env's short image
// URL in the same transaction. A revoked short URL remains revoked. It returns the previous code,
// or "".
func (e *Engine) ReplaceAgentKeys(ctx context.Context, infraEnvID string, fn KeyChange) (code string, err error) {
	next := newImageCode()
	err = e.update(ctx, func(c *change) error {
		row, err := c.infraEnv(infraEnvID)
		if err != nil {
			return err
		}
		if code = row.Code.Code; code != "" {
			if err := c.setImageCode(row, next, row.Code.Expires); err != nil {
				return err
			}
		}
		return c.changeAgentKeys(row, fn)
	})
	return code, err
}

func (c *change) changeAgentKeys(row *record.InfraEnv, fn KeyChange) error {
	text, err := fn(&row.API, &row.AgentKeys)
	if err != nil {
		return err
	}
	c.saveInfraEnv(row)
	if err := c.keepRecipe(row, &draft{}); err != nil {
		return err
	}
	return c.infraEnvEvent(row, event.TokensChanged, models.EventSeverityInfo, "%s", text)
}
