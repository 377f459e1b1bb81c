package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/appliance/sentence"
	"landfall/ignition"
	"landfall/store"
)

// Recipe is all that goes into the images of an infra-env but the base image: it is frozen when the
// infra-env changes, kept in the store in that change's own transaction, and never made anew
// because somebody reads it. Equal recipes over equal base images are equal images, here and on any
// other machine.
type Recipe struct {
	InfraEnvID       string `json:"infra_env_id"`
	Name             string `json:"name"`              // the infra-env's
	OpenshiftVersion string `json:"openshift_version"` // whose base image is asked for
	CPUArchitecture  string `json:"cpu_architecture"`  // as the API calls it
	// what the infra-env's own download URL is for; all kinds can be made
	Type     models.ImageType `json:"type"`
	Ignition []byte           `json:"ignition"` // the discovery config, the same for all kinds
	// Files go into the initial RAM file system of minimal images and of network boot, which need
	// the site's network before Ignition runs; full images do without.
	Files []ignition.File `json:"files,omitempty"`
	// WithoutNetwork says why Files don't set up the static network of machines: minimal images
	// can't be made then, and machines that boot over the network have what DHCP gives them until
	// the whole system is there. It is "" otherwise.
	WithoutNetwork  string                 `json:"without_network,omitempty"`
	KernelArguments models.KernelArguments `json:"kernel_arguments,omitempty"`
	// SHA-256 over all of the above but the infra-env's id and name, in hexadecimal digits
	Digest string `json:"digest"`
	// when it was frozen, UTC; the infra-env's updated_at is not before it
	Modified time.Time `json:"-"`
}

// BaseImages knows what the site's base images can carry; the appliance implements it.
type BaseImages interface {
	// Check says what of a recipe does not fit the base image for a version and an architecture:
	// kernel arguments or a config that are too long, a minimal image that the base can't be made
	// into. A base that is not there yet is no error.
	Check(version, arch string, recipe *Recipe) error
}

// recipeNote is what an infra-env's row says of its recipe.
type recipeNote struct {
	Digest string `json:"digest,omitempty"` // "" until it is known which agent the hosts run
	Inputs string `json:"inputs,omitempty"` // digest of what it was made from
}

// recipeOrigin is what all recipes were made from when they were last looked at.
type recipeOrigin struct {
	Digest string `json:"digest"` // see sharedInputs
}

// frozenFrom is the key of the one [recipeOrigin].
const frozenFrom = "all"

// draft is a recipe made ahead of the transaction that keeps it, because that takes longer than a
// transaction should.
type draft struct {
	agent  string // pull spec; "" when it is not known yet, and the recipe has a word in its place
	inputs string
	recipe *Recipe
	staged *store.Staged // nil without an agent
}

// Recipe returns the recipe of an infra-env as it was frozen when that last changed. One that could
// not be frozen then, because the release payload must be asked which agent hosts run, is frozen
// now; an [Error] of kind Unavailable says what is missing for it.
func (e *Engine) Recipe(ctx context.Context, infraEnvID string) (*Recipe, error) {
	row, err := e.infraEnvRow(infraEnvID)
	if err != nil {
		return nil, err
	}
	if row.Recipe.Digest == "" {
		if err := e.freeze(ctx, infraEnvID, ""); err != nil {
			return nil, err
		}
	}
	file, info, err := e.openSealed(recipeFiles, infraEnvID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("There is no infra-env %s.", infraEnvID)
	}
	if err != nil {
		return nil, err
	}
	recipe := &Recipe{Modified: info.Modified}
	err = errors.Join(json.NewDecoder(file).Decode(recipe), file.Close())
	return recipe, err
}

// RecipeDigest returns the digest of an infra-env's recipe at little cost, so that a reader can
// tell whether the one that it holds is still the newest. It is "" while the recipe is not frozen.
func (e *Engine) RecipeDigest(infraEnvID string) (string, error) {
	row, err := e.infraEnvRow(infraEnvID)
	if err != nil {
		return "", err
	}
	return row.Recipe.Digest, nil
}

// draft makes the recipe of an infra-env's values as far as it is known now which agent its hosts
// run, and asks the base images whether it fits them.
func (e *Engine) draft(ctx context.Context, row *infraEnvRecord) (*draft, error) {
	var agent string
	if err := e.options.DB.View(func(tx *store.Tx) (err error) {
		agent, err = e.knownAgent(tx, row)
		return err
	}); err != nil {
		return nil, err
	}
	made, err := e.render(ctx, row, agent)
	if err != nil || e.options.BaseImages == nil {
		return made, err
	}
	if err := e.options.BaseImages.Check(row.API.OpenshiftVersion, row.API.CPUArchitecture, made.recipe); err != nil {
		return nil, refusal(err)
	}
	return made, nil
}

// freezeLater has a recipe frozen in the background, if the draft lacks the agent.
func (e *Engine) freezeLater(infraEnvID string, made *draft) {
	if made.agent != "" {
		return
	}
	select {
	case e.unfrozen <- infraEnvID:
	default: // whoever reads it first has it frozen
	}
}

// freezeRecipes freezes the recipes that the appliance's configuration or a new release of it
// changed since they were frozen, and then those of infra-envs as they come, until the context
// ends.
func (e *Engine) freezeRecipes(ctx context.Context) {
	if err := e.refreezeAll(ctx); err != nil && ctx.Err() == nil {
		e.options.Logger.Error("The infra-envs could not be read to look at their images.", "error", err)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-e.unfrozen:
			if err := e.freeze(ctx, id, ""); err != nil && ctx.Err() == nil {
				e.options.Logger.Warn("An infra-env's image can't be made yet.", "infra_env", id, "error", err)
			}
		}
	}
}

// refreezeAll looks at every infra-env's recipe, unless it did so before and nothing that recipes
// share is different now: a start over thousands of infra-envs reads none of them then.
func (e *Engine) refreezeAll(ctx context.Context) error {
	shared, err := e.sharedInputs()
	if err != nil {
		return err
	}
	var ids []string
	if err := e.options.DB.View(func(tx *store.Tx) error {
		known, err := recipeOrigins.Get(tx, frozenFrom)
		if err == nil && known.Digest == shared {
			return nil
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return infraEnvRows.Keys(tx, "", func(id string) error { ids = append(ids, id); return nil })
	}); err != nil || len(ids) == 0 {
		return err
	}
	complete := true
	for _, id := range ids {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := e.refreeze(ctx, id); err != nil && ctx.Err() == nil {
			e.options.Logger.Warn("An infra-env's image stays as it was.", "infra_env", id, "error", err)
			complete = false
		}
	}
	if !complete {
		return nil // the next start tries again
	}
	return e.options.DB.Update(ctx, func(tx *store.Tx) error {
		return recipeOrigins.Put(tx, frozenFrom,
			&recipeOrigin{Digest: shared})
	})
}

// sharedInputs is a digest over what all recipes are made from beside the fields of their
// infra-env: what a recipe of an infra-env without any would be made from, and the releases that
// name agents.
func (e *Engine) sharedInputs() (string, error) {
	none := infraEnvRecord{API: models.InfraEnv{ID: new(strfmt.UUID), Name: new(string)}}
	inputs, err := e.recipeInputs(&none, e.options.Images.Agent)
	if err != nil {
		return "", err
	}
	return digestOf([]any{inputs, e.options.ReleaseList})
}

// refreeze freezes a recipe again if it was made from something else than it would be now, and
// gives an infra-env of an earlier release of the appliance what it lacks.
func (e *Engine) refreeze(ctx context.Context, id string) error {
	row, err := e.infraEnvRow(id)
	if err != nil {
		return err
	}
	if !row.Code.Given {
		if err := e.firstImageCode(ctx, id); err != nil {
			return err
		}
	}
	var agent string
	if err := e.options.DB.View(func(tx *store.Tx) (err error) {
		agent, err = e.knownAgent(tx, row)
		return err
	}); err != nil {
		return err
	}
	inputs, err := e.recipeInputs(row, agent)
	if err != nil || inputs == row.Recipe.Inputs || agent == "" && row.Recipe.Digest == "" {
		return err // one whose agent must be asked for is frozen when it is read
	}
	if agent == "" {
		return &Error{Kind: Unavailable,
			Reason: fmt.Sprintf("The release payload that names the agent of infra-env %s has not been read yet; "+
				"update the infra-env to have its image made anew.", *row.API.Name)}
	}
	return e.freeze(ctx, id,
		"The appliance's configuration changed the discovery image of infra-env %s; download it again.")
}

// freeze makes the recipe of an infra-env as that is now, asking the release payload for the agent
// if need be, and keeps it if it differs. The event's text, unless "", tells people why one that
// there was changed; it has the infra-env's name put in.
func (e *Engine) freeze(ctx context.Context, infraEnvID, event string) error {
	row, err := e.infraEnvRow(infraEnvID)
	if err != nil {
		return err
	}
	agent, err := e.agentImage(ctx, row)
	if err != nil {
		return err
	}
	made, err := e.render(ctx, row, agent)
	if err != nil {
		return err
	}
	return e.update(ctx, func(c *change) error {
		row, err := c.infraEnv(infraEnvID)
		if err != nil {
			return err
		}
		before := row.Recipe.Digest
		if err := c.keepRecipe(row, made); err != nil {
			return err
		}
		if event == "" || before == "" || row.Recipe.Digest == before {
			return nil
		}
		return c.infraEnvEvent(row, eventImageUpdated, models.EventSeverityInfo, event, *row.API.Name)
	})
}

// keepRecipe gives an infra-env that has its new values its recipe: the draft's if that was made
// from the same ones, else one made now. When the recipe's bytes differ from those kept so far, the
// infra-env counts as changed now.
func (c *change) keepRecipe(row *infraEnvRecord, made *draft) error {
	agent, err := c.e.knownAgent(c.tx, row)
	if err != nil {
		return err
	}
	if agent == "" {
		agent = made.agent
	}
	inputs, err := c.e.recipeInputs(row, agent)
	if err != nil {
		return err
	}
	if inputs != made.inputs {
		if made, err = c.e.render(c.ctx, row, agent); err != nil {
			return err
		}
	}
	id := row.API.ID.String()
	if made.agent == "" {
		if row.Recipe == (recipeNote{}) {
			return nil
		}
		row.Recipe = recipeNote{}
		c.saveInfraEnv(row)
		return recipeFiles.Delete(c.tx, id)
	}
	if row.Recipe.Digest == made.recipe.Digest && row.Recipe.Inputs == made.inputs {
		return nil
	}
	if row.Recipe.Digest != made.recipe.Digest {
		row.API.UpdatedAt = &c.now
		if err := recipeFiles.Put(c.tx, id, made.staged, c.now); err != nil {
			return err
		}
	}
	row.Recipe = recipeNote{Digest: made.recipe.Digest, Inputs: made.inputs}
	c.saveInfraEnv(row)
	return nil
}

// render makes the recipe of an infra-env for an agent. Without one it only finds what is wrong:
// the recipe can't be kept then.
func (e *Engine) render(ctx context.Context, row *infraEnvRecord, agent string) (*draft, error) {
	inputs, err := e.recipeInputs(row, agent)
	if err != nil {
		return nil, err
	}
	config, err := e.discoveryConfig(row, orText(agent, "checked-when-known"))
	if err != nil {
		return nil, err
	}
	if err := description.FirstOf(description.CheckProxy(config.Proxy.HTTP), description.CheckProxy(config.Proxy.HTTPS),
		description.CheckNoProxy(config.Proxy.No)); err != nil {
		return nil, err
	}
	recipe := &Recipe{
		InfraEnvID: row.API.ID.String(), Name: *row.API.Name, OpenshiftVersion: row.API.OpenshiftVersion,
		CPUArchitecture: row.API.CPUArchitecture, Type: *row.API.Type,
	}
	if recipe.Ignition, err = ignition.Discovery(config); err != nil {
		return nil, &Error{Kind: Invalid, Reason: sentence.New(err), Err: err}
	}
	recipe.Files, err = ignition.InitrdFiles(config)
	unreachable, ok := errors.AsType[*ignition.InitrdNetworkError](err)
	if err != nil && (!ok || recipe.Type == models.ImageTypeMinimalIso) {
		return nil, &Error{Kind: Invalid, Reason: sentence.New(err), Err: err}
	}
	if ok {
		recipe.WithoutNetwork = sentence.New(unreachable)
	}
	if recipe.KernelArguments, err = description.KernelArguments(&row.API); err != nil {
		return nil, err
	}
	if recipe.Digest, err = recipe.digest(); err != nil {
		return nil, err
	}
	made := &draft{agent: agent, inputs: inputs, recipe: recipe}
	if agent == "" {
		return made, nil
	}
	text, err := json.Marshal(recipe)
	if err != nil {
		return nil, err
	}
	if text, err = e.options.Secrets.SealBytes(text); err != nil {
		return nil, err
	}
	made.staged, err = e.options.DB.Stage(ctx, bytes.NewReader(text))
	return made, err
}

// refusal makes an error of another package one that says the request is wrong, unless it has a
// kind already.
func refusal(err error) error {
	if KindOf(err) != 0 {
		return err
	}
	return &Error{Kind: Invalid, Reason: sentence.New(err), Err: err}
}

func (r Recipe) digest() (string, error) {
	r.InfraEnvID, r.Name, r.Digest = "", "", ""
	return digestOf(r)
}

// recipeInputs is a digest over what an infra-env's recipe is made from: its own fields, the
// appliance's configuration and the program's way to write configs. It costs much less than to make
// the recipe.
func (e *Engine) recipeInputs(row *infraEnvRecord, agent string) (string, error) {
	config, err := e.discoveryConfig(row, agent)
	if err != nil {
		return "", err
	}
	edition, err := ignition.Edition()
	if err != nil {
		return "", err
	}
	return digestOf([]any{edition, config, row.API.OpenshiftVersion, row.API.CPUArchitecture, row.API.Type,
		row.API.KernelArguments, *row.API.Name})
}

func digestOf(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("compute a digest: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// knownAgent returns the pull spec of an infra-env's agent as far as the configuration or a payload
// read before tells it, and "" when the registry must be asked.
func (e *Engine) knownAgent(tx *store.Tx, row *infraEnvRecord) (string, error) {
	if e.options.Images.Agent != "" {
		return e.options.Images.Agent, nil
	}
	pullSpec, err := e.agentRelease(tx, row)
	if err != nil {
		return "", err
	}
	payload, err := payloadRows.Get(tx, payloadKey(pullSpec, row.API.CPUArchitecture))
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return payload.Images[release.TagAgent], nil
}

// agentRelease returns the pull spec of the release payload that names an infra-env's agent: its
// cluster's, or that of its version.
func (e *Engine) agentRelease(tx *store.Tx, row *infraEnvRecord) (string, error) {
	if row.API.ClusterID != "" {
		cluster, err := clusterRows.Get(tx, row.API.ClusterID.String())
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

// RefreshImages freezes the recipes again that would be others now, after the mirror rules of a
// level changed. What can't be frozen is logged: the recipe stays as it was, or is frozen when it
// is read.
func (e *Engine) RefreshImages(ctx context.Context, level mirror.Level) {
	err := e.refreezeLevel(ctx, level)
	if err != nil && ctx.Err() == nil {
		e.options.Logger.Warn("Not all images could be made anew for the changed mirror rules.", "error", err)
	}
}

func (e *Engine) refreezeLevel(ctx context.Context, level mirror.Level) error {
	if level == (mirror.Level{}) {
		return e.refreezeAll(ctx)
	}
	var ids []string
	if err := e.options.DB.View(func(tx *store.Tx) error {
		return infraEnvRows.Each(tx, "", func(id string, row *infraEnvRecord) error {
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
