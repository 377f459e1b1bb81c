package console

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/fault"
	"landfall/appliance/registry"
	"landfall/appliance/registry/overlay"
	"landfall/appliance/registry/traffic"
	"landfall/web/operation"
	webregistry "landfall/web/registry"
)

// Routes of the appliance's registry.
const (
	RegistryRoute       = BasePath + "/registry"
	RegistryMediaRoute  = RegistryRoute + "/media"
	RegistryRemoveRoute = RegistryMediaRoute + "/remove"
	RegistryVerifyRoute = RegistryRoute + "/verify"
	RegistryGCRoute     = RegistryRoute + "/gc"
	RegistryStageRoute  = RegistryRoute + "/stage"
	RegistryCancelRoute = RegistryStageRoute + "/cancel"
)

// MediaRequest is the body of a request to add media.
type MediaRequest struct {
	Path string `json:"path"` // on the appliance's machine
}

// RemovalRequest is the body of a request to remove media.
type RemovalRequest struct {
	Medium string `json:"medium"` // a path that was added, or the label or path of a missing medium
}

// StageRequest is the body of a request to copy media to the disk.
type StageRequest struct {
	Medium string `json:"medium"` // its label or path; all are all media
	// Plan only returns what the copy needs.
	Plan bool `json:"plan"`
}

type ownRegistry struct {
	*webregistry.Server
	complete func(*registry.Status) error
}

// status answers with the state of the registry. Its dependents and clients are those of the whole
// site, so only identities that may use the whole site get them.
func (r ownRegistry) status(c echo.Context, status int) (err error) {
	shown := r.Status()
	if access.From(c.Request().Context()).Scope.Limited() {
		shown.Clients = []traffic.Client{}
	} else {
		err = r.complete(&shown)
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return answerWith(c, status, shown, err)
}

// RegistryOperations returns the operations on the appliance's registry, which may be nil. complete
// adds to its status what the site knows: the clusters that depend on it, and the hosts among its
// clients.
func RegistryOperations(server *webregistry.Server, complete func(*registry.Status) error) []operation.Operation {
	r := ownRegistry{server, complete}
	return []operation.Operation{
		{ID: "getRegistry", Method: http.MethodGet, Path: RegistryRoute, Access: operation.For(access.Viewer).OfAll(),
			Handler: r.show, Summary: "Show the media of the appliance's registry, what they hold and what they lack",
			Status: http.StatusOK, Answer: registry.Status{}, Errors: []int{404}},
		{ID: "addRegistryMedia", Method: http.MethodPost, Path: RegistryMediaRoute,
			Access: operation.For(access.Administrator), Handler: r.add,
			Summary: "Serve the media at a path, and allow the releases that lie there now",
			Body:    MediaRequest{}, Status: http.StatusOK, Answer: registry.Status{}, Errors: []int{400, 404, 409}},
		{ID: "removeRegistryMedia", Method: http.MethodPost, Path: RegistryRemoveRoute,
			Access: operation.For(access.Administrator), Handler: r.remove,
			Summary: "Stop serving the media at a path that was added, or forget a missing medium",
			Body:    RemovalRequest{}, Status: http.StatusOK, Answer: registry.Status{}, Errors: []int{400, 404, 409}},
		{ID: "verifyRegistry", Method: http.MethodPost, Path: RegistryVerifyRoute,
			Access: operation.For(access.Operator), Handler: r.verify,
			Summary: "Start to compare all blobs with their digests: on the present media, in copies, and pushed",
			Status:  http.StatusAccepted, Answer: registry.Status{}, Errors: []int{404, 409}},
		{ID: "collectRegistry", Method: http.MethodPost, Path: RegistryGCRoute,
			Access: operation.For(access.Administrator), Handler: r.collect,
			Summary: "Remove pushed blobs that no manifest needs, uploads that nobody continued for a day, and " +
				"unwanted copies of media",
			Status: http.StatusOK, Answer: overlay.Collected{}, Errors: []int{404}},
		{ID: "stageRegistry", Method: http.MethodPost, Path: RegistryStageRoute,
			Access:  operation.For(access.Administrator),
			Handler: r.stage,
			Summary: "Copy media to the appliance's disk while they are served, or show what that needs",
			Body:    StageRequest{}, Status: http.StatusAccepted, Answer: registry.StagePlan{},
			Errors: []int{400, 404, 507}},
		{ID: "cancelRegistryStage", Method: http.MethodPost, Path: RegistryCancelRoute,
			Access:  operation.For(access.Administrator),
			Handler: r.cancelStage, Summary: "Stop copying media to the disk",
			Body: StageRequest{}, Status: http.StatusAccepted, Answer: registry.Status{},
			Errors: []int{400, 404, 409}},
	}
}

// errNoRegistry is returned if the configuration has no registry.
var errNoRegistry = fault.New(fault.NotFound, "This appliance has no registry; set registry.listen in the "+
	"configuration, such as --registry-listen 0.0.0.0:5000, and restart it.")

func (r ownRegistry) show(c echo.Context) error {
	if r.Server == nil {
		return errNoRegistry
	}
	return r.status(c, http.StatusOK)
}

func (r ownRegistry) add(c echo.Context) error {
	if r.Server == nil {
		return errNoRegistry
	}
	var wanted MediaRequest
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	if err := r.Add(c.Request().Context(), wanted.Path); err != nil {
		return err
	}
	return r.status(c, http.StatusOK)
}

func (r ownRegistry) remove(c echo.Context) error {
	if r.Server == nil {
		return errNoRegistry
	}
	var wanted RemovalRequest
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	if err := r.Remove(c.Request().Context(), wanted.Medium); err != nil {
		return err
	}
	return r.status(c, http.StatusOK)
}

func (r ownRegistry) verify(c echo.Context) error {
	if r.Server == nil {
		return errNoRegistry
	}
	if err := r.StartVerify(); err != nil {
		return err
	}
	return r.status(c, http.StatusAccepted)
}

func (r ownRegistry) collect(c echo.Context) error {
	if r.Server == nil {
		return errNoRegistry
	}
	done, err := r.Collect(c.Request().Context())
	return answer(c, done, err)
}

func (r ownRegistry) stage(c echo.Context) error {
	if r.Server == nil {
		return errNoRegistry
	}
	var wanted StageRequest
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	if wanted.Plan {
		plan, err := r.PlanStage(wanted.Medium)
		return answerWith(c, http.StatusAccepted, plan, err)
	}
	plan, err := r.Stage(c.Request().Context(), wanted.Medium)
	return answerWith(c, http.StatusAccepted, plan, err)
}

func (r ownRegistry) cancelStage(c echo.Context) error {
	if r.Server == nil {
		return errNoRegistry
	}
	var wanted StageRequest
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	if err := r.CancelStage(c.Request().Context(), wanted.Medium); err != nil {
		return err
	}
	return r.status(c, http.StatusAccepted)
}
