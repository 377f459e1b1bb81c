package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access/machine"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/recipe"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/appliance/sentence"
	"landfall/store"
)

// The recipe of an infra-env is frozen and stored in the transaction that changes the infra-env.
// Downloads only read it.

// BaseImages checks recipes against the site's base images. Package discovery implements it.
type BaseImages interface {
	// Check returns an error if a recipe does not fit the base image of a version and an
	// architecture, for example because the kernel arguments or the config are too long. A missing
	// base image is not an error.
	Check(version, arch string, recipe *recipe.Recipe) error
}

// draft is a recipe that is generated before the transaction that stores it, because generating it
// takes too long for a transaction.
type draft struct {
	agent  string // pull spec; "" if not stored yet, in which case the recipe has a placeholder
	inputs string // fingerprint of the inputs
	recipe *recipe.Recipe
	staged *store.Staged // nil without an agent
}

// Recipe returns the stored recipe of an infra-env. If it is not frozen, because the agent's pull
// spec must be read from the release payload, Recipe freezes it now. If the payload
// cannot be read, the error has kind Unavailable.
func (e *Engine) Recipe(ctx context.Context, infraEnvID string) (*recipe.Recipe, error) {
	row, err := record.ReadInfraEnv(e.options.DB, infraEnvID)
	if err != nil {
		return nil, err
	}
	if row.Recipe.Digest == "" {
		if err := e.freeze(ctx, infraEnvID, ""); err != nil {
			return nil, err
		}
	}
	file, info, err := record.OpenSealed(e.options.DB, e.options.Secrets, record.Recipes, infraEnvID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("There is no infra-env %s.", infraEnvID)
	}
	if err != nil {
		return nil, err
	}
	stored := &recipe.Recipe{Modified: info.Modified}
	err = errors.Join(json.NewDecoder(file).Decode(stored), file.Close())
	return stored, err
}

// draft generates the recipe of an infra-env and checks it against the base images. It does not
// contact the registry.
func (e *Engine) draft(ctx context.Context, row *record.InfraEnv) (*draft, error) {
	var agent string
	if err := e.options.DB.View(func(tx *store.Tx) (err error) {
		agent, err = e.localAgentImage(tx, row)
		return err
	}); err != nil {
		return nil, err
	}
	drafted, err := e.render(ctx, row, agent)
	if err != nil || e.options.BaseImages == nil {
		return drafted, err
	}
	err = e.options.BaseImages.Check(row.API.OpenshiftVersion, row.API.CPUArchitecture, drafted.recipe)
	if err != nil && fault.KindOf(err) == 0 {
		err = &fault.Error{Kind: fault.Invalid, Reason: sentence.New(err), Err: err}
	}
	if err != nil {
		return nil, err
	}
	return drafted, nil
}

// freezeLater queues an infra-env whose draft lacks the agent's pull spec.
func (e *Engine) freezeLater(infraEnvID string, drafted *draft) {
	if drafted.agent != "" {
		return
	}
	select {
	case e.unfrozen <- infraEnvID:
	default: // The queue is full; the first download freezes the recipe.
	}
}

// freezeRecipes refreshes the recipes that are outdated after a change of the configuration or an
// upgrade of the appliance. Then it freezes the recipes of queued infra-envs until the context
// ends.
func (e *Engine) freezeRecipes(ctx context.Context) {
	if err := e.refreezeAll(ctx); err != nil && ctx.Err() == nil {
		e.options.Logger.Error("The image recipes of the infra-envs could not be checked.", "error", err)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-e.unfrozen:
			if err := e.freeze(ctx, id, ""); err != nil && ctx.Err() == nil {
				e.options.Logger.Warn("The discovery image of an infra-env can't be generated yet.", "infra_env",
					id, "error", err)
			}
		}
	}
}

// refreezeAll refreshes the recipes of all infra-envs. If the shared inputs have not changed since
// its last success, it does nothing, so that a start does not read thousands of infra-envs.
func (e *Engine) refreezeAll(ctx context.Context) error {
	shared, err := e.sharedInputs()
	if err != nil {
		return err
	}
	var ids []string
	if err := e.options.DB.View(func(tx *store.Tx) error {
		stored, err := record.RecipeOrigins.Get(tx, record.RecipeOriginKey)
		if err == nil && stored.Digest == shared {
			ids = stored.Outdated // the others are up to date
			return nil
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return record.InfraEnvs.Keys(tx, "", func(id string) error { ids = append(ids, id); return nil })
	}); err != nil || len(ids) == 0 {
		return err
	}
	var outdated []string
	for _, id := range ids {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := e.refreeze(ctx, id); err != nil && ctx.Err() == nil {
			e.options.Logger.Warn("The discovery image of an infra-env could not be updated.", "infra_env", id,
				"error", err)
			outdated = append(outdated, id) // the next start tries again
		}
	}
	return e.options.DB.Update(ctx, func(tx *store.Tx) error {
		refreshed := &record.RecipeOrigin{Digest: shared, Outdated: outdated}
		if same, err := record.RecipeOrigins.Holds(tx, record.RecipeOriginKey, refreshed); same || err != nil {
			return err
		}
		return record.RecipeOrigins.Put(tx, record.RecipeOriginKey, refreshed)
	})
}

// sharedInputs returns a fingerprint of the inputs that all recipes share: the inputs of an empty
// infra-env, and the list of releases, which determine the agents.
func (e *Engine) sharedInputs() (string, error) {
	none := record.InfraEnv{API: models.InfraEnv{ID: new(strfmt.UUID), Name: new(string)}}
	inputs, err := e.recipeFingerprint(&none, e.options.Images.Agent)
	if err != nil {
		return "", err
	}
	return recipe.Digest([]any{inputs, e.ReleaseList(), e.options.Tokens != nil})
}

// refreeze freezes a recipe again if its inputs have changed. It also creates the image code of an
// infra-env from an earlier release of the appliance, which had no codes, and the signing key of an
// infra-env from the time when the appliance did not authenticate machines.
func (e *Engine) refreeze(ctx context.Context, id string) error {
	row, err := record.ReadInfraEnv(e.options.DB, id)
	if err != nil {
		return err
	}
	if !row.Code.Given {
		if err := e.firstImageCode(ctx, id); err != nil {
			return err
		}
	}
	if row, err = e.embedTokens(ctx, row); err != nil {
		return err
	}
	var agent string
	if err := e.options.DB.View(func(tx *store.Tx) (err error) {
		agent, err = e.localAgentImage(tx, row)
		return err
	}); err != nil {
		return err
	}
	inputs, err := e.recipeFingerprint(row, agent)
	if err != nil || inputs == row.Recipe.Inputs || agent == "" && row.Recipe.Digest == "" {
		return err // a recipe without an agent is frozen by its first download
	}
	if agent == "" {
		return &fault.Error{Kind: fault.Unavailable,
			Reason: fmt.Sprintf("The release payload that names the agent of infra-env %s has not been read yet; "+
				"update the infra-env to generate its image again.", *row.API.Name)}
	}
	return e.freeze(ctx, id,
		"The appliance's configuration changed the discovery image of infra-env %s; download it again.")
}

// freeze generates the recipe of an infra-env and stores it if it has changed. If necessary, it
// reads the agent's pull spec from the release payload. The text is the format of the event about a
// changed recipe, with the infra-env's name as its argument. If the text is empty, no event is
// written.
func (e *Engine) freeze(ctx context.Context, infraEnvID, text string) error {
	row, err := record.ReadInfraEnv(e.options.DB, infraEnvID)
	if err != nil {
		return err
	}
	agent, err := e.agentImage(ctx, row)
	if err != nil {
		return err
	}
	drafted, err := e.render(ctx, row, agent)
	if err != nil {
		return err
	}
	return e.update(ctx, func(c *change) error {
		row, err := c.infraEnv(infraEnvID)
		if err != nil {
			return err
		}
		before := row.Recipe.Digest
		if err := c.keepRecipe(row, drafted); err != nil {
			return err
		}
		if text == "" || before == "" || row.Recipe.Digest == before {
			return nil
		}
		return c.infraEnvEvent(row, event.ImageUpdated, models.EventSeverityInfo, text, *row.API.Name)
	})
}

// keepRecipe stores the recipe of a changed infra-env: the draft if it has the present inputs, else
// a new recipe. If the recipe differs from the stored one, the infra-env counts as updated.
func (c *change) keepRecipe(row *record.InfraEnv, drafted *draft) error {
	agent, err := c.e.localAgentImage(c.tx, row)
	if err != nil {
		return err
	}
	if agent == "" {
		agent = drafted.agent
	}
	inputs, err := c.e.recipeFingerprint(row, agent)
	if err != nil {
		return err
	}
	if inputs != drafted.inputs {
		if drafted, err = c.e.render(c.ctx, row, agent); err != nil {
			return err
		}
	}
	id := row.API.ID.String()
	if drafted.agent == "" {
		if row.Recipe == (record.RecipeState{}) {
			return nil
		}
		row.Recipe = record.RecipeState{}
		c.saveInfraEnv(row)
		return record.Recipes.Delete(c.tx, id)
	}
	if row.Recipe.Digest == drafted.recipe.Digest && row.Recipe.Inputs == drafted.inputs {
		return nil
	}
	if row.Recipe.Digest != drafted.recipe.Digest {
		row.API.UpdatedAt = &c.now
		if err := record.Recipes.Put(c.tx, id, drafted.staged, c.now); err != nil {
			return err
		}
	}
	row.Recipe = record.RecipeState{Digest: drafted.recipe.Digest, Inputs: drafted.inputs}
	c.saveInfraEnv(row)
	return nil
}

// render generates and stages the recipe of an infra-env. Without an agent, it only checks the
// inputs, and the result cannot be stored.
func (e *Engine) render(ctx context.Context, row *record.InfraEnv, agent string) (*draft, error) {
	fingerprint, err := e.recipeFingerprint(row, agent)
	if err != nil {
		return nil, err
	}
	inputs, err := e.recipeInputs(row, orText(agent, "checked-when-known"))
	if err != nil {
		return nil, err
	}
	drafted := &draft{agent: agent, inputs: fingerprint}
	if drafted.recipe, err = recipe.New(inputs); err != nil || agent == "" {
		return drafted, err
	}
	text, err := json.Marshal(drafted.recipe)
	if err != nil {
		return nil, err
	}
	if text, err = e.options.Secrets.SealBytes(text); err != nil {
		return nil, err
	}
	drafted.staged, err = e.options.DB.Stage(ctx, bytes.NewReader(text))
	return drafted, err
}

// recipeInputs returns the inputs of an infra-env's recipe: its fields and the configuration of the
// appliance.
func (e *Engine) recipeInputs(row *record.InfraEnv, agent string) (*recipe.Inputs, error) {
	secret, err := record.OpenSecret(e.options.Secrets, row.PullSecret)
	if err != nil {
		return nil, err
	}
	rules := e.infraEnvAccess(&row.API).Mirror
	if secret, err = rules.Narrow(secret, agent, e.options.Images.Agent, e.options.Images.Installer,
		e.options.Images.Controller); err != nil {
		return nil, err
	}
	token, err := e.token(row, machine.ForAgent)
	if err != nil {
		return nil, err
	}
	inputs := &recipe.Inputs{InfraEnv: &row.API, Agent: agent, Token: token, PullSecret: secret,
		ServiceURL: e.options.URL,
		ServiceCA:  e.options.ServiceCA, MirrorCAs: rules.CABundle(), Sealed: row.AgentKeys.Seal != nil}
	if inputs.Sealed {
		if inputs.SealedToken, err = e.token(row, machine.ForConfig); err != nil {
			return nil, err
		}
	}
	if !rules.Empty() {
		inputs.RegistriesConf = rules.RegistriesConf()
	}
	return inputs, nil
}

func (e *Engine) recipeFingerprint(row *record.InfraEnv, agent string) (string, error) {
	inputs, err := e.recipeInputs(row, agent)
	if err != nil {
		return "", err
	}
	return inputs.Fingerprint()
}

// localAgentImage returns the pull spec of an infra-env's agent from the configuration or from a
// stored release payload. It returns "" if the payload must be read from the registry.
func (e *Engine) localAgentImage(tx *store.Tx, row *record.InfraEnv) (string, error) {
	if e.options.Images.Agent != "" {
		return e.options.Images.Agent, nil
	}
	pullSpec, err := e.agentRelease(tx, row)
	if err != nil {
		return "", err
	}
	payload, err := record.Payloads.Get(tx, record.PayloadKey(pullSpec, row.API.CPUArchitecture))
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return payload.Images[release.TagAgent], nil
}

// agentRelease returns the pull spec of the release that contains an infra-env's agent: the release
// of its cluster or of its version.
func (e *Engine) agentRelease(tx *store.Tx, row *record.InfraEnv) (string, error) {
	if row.API.ClusterID != "" {
		cluster, err := record.Clusters.Get(tx, row.API.ClusterID.String())
		if err == nil && cluster.API.OcpReleaseImage != "" {
			return cluster.API.OcpReleaseImage, nil
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", err
		}
	}
	image, err := e.site().FindRelease(row.API.OpenshiftVersion, row.API.CPUArchitecture, "")
	return image.URL, err
}

// RefreshImages refreshes the recipes that depend on the mirror rules of a level, after a change of
// the rules. It logs recipes that cannot be frozen; they keep their content.
func (e *Engine) RefreshImages(ctx context.Context, level mirror.Level) {
	err := e.refreezeLevel(ctx, level)
	if err != nil && ctx.Err() == nil {
		e.options.Logger.Warn("Some discovery images could not be updated after a change of the mirror rules.",
			"error", err)
	}
}

func (e *Engine) refreezeLevel(ctx context.Context, level mirror.Level) error {
	if level == (mirror.Level{}) {
		return e.refreezeAll(ctx)
	}
	var ids []string
	if err := e.options.DB.View(func(tx *store.Tx) error {
		return record.InfraEnvs.Each(tx, "", func(id string, row *record.InfraEnv) error {
			if id == level.InfraEnv || level.Cluster != "" && row.API.ClusterID.String() == level.Cluster {
				ids = append(ids, id)
			}
			return nil
		})
	}); err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, e.refreeze(ctx, id))
	}
	return errors.Join(errs...)
}
