package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/bmc"
	"landfall/web/operation"
	"landfall/web/problem"
	"landfall/web/recording"
)

// BMCsRoute is the route of the servers whose BMCs the appliance controls. The parameter :id of the
// operations is the ID of a server or its escaped name. The live feed reports changes of servers
// with the kind "bmcs".
const BMCsRoute = BasePath + "/bmcs"

// BMCs manages the servers whose BMCs the appliance controls.
type BMCs interface {
	Servers() ([]*bmc.Server, error)
	Find(idOrName string) (*bmc.Server, error)
	// Ensure creates a server; its infra-env must exist.
	Ensure(ctx context.Context, id string, desired bmc.Desired) (*bmc.Server, error)
	// Check returns the error of adding a server, without adding it.
	Check(desired bmc.Desired) error
	Change(ctx context.Context, id string, password *string,
		alter func(bmc.Desired) (bmc.Desired, error)) (*bmc.Server, error)
	Remove(ctx context.Context, id string, powerOff bool) error
	// Boot returns a *bmc.RunningHostError if the boot would end a host, unless force is set.
	Boot(ctx context.Context, id, infraEnvID string, force bool) (*bmc.Server, error)
	RequestAction(ctx context.Context, id string, kind bmc.ActionKind) (*bmc.Server, error)
	RequestLogs(id string) ([]bmc.RequestLog, error)
	// InfraEnv returns the ID of the infra-env with the given ID or name; "" means none.
	InfraEnv(idOrName string) (string, error)
}

// BMCCreate is the body of a request to add a server.
type BMCCreate struct {
	Name       string `json:"name"`
	Address    string `json:"address"`
	Username   string `json:"username"`
	Password   string `json:"password"`
	SkipVerify bool   `json:"skip_verify,omitempty"`
	CA         string `json:"ca,omitempty"`
	BootMAC    string `json:"boot_mac,omitempty"`
	BootMode   string `json:"boot_mode,omitempty"`
	InfraEnvID string `json:"infra_env_id,omitempty"` // ID or name
}

// BMCUpdate is the body of a request to change a server. Absent fields stay unchanged.
type BMCUpdate struct {
	Name       *string `json:"name,omitempty"`
	Address    *string `json:"address,omitempty"`
	Username   *string `json:"username,omitempty"`
	Password   *string `json:"password,omitempty"`
	SkipVerify *bool   `json:"skip_verify,omitempty"`
	CA         *string `json:"ca,omitempty"`
	BootMAC    *string `json:"boot_mac,omitempty"`
	BootMode   *string `json:"boot_mode,omitempty"`
	InfraEnvID *string `json:"infra_env_id,omitempty"`
	Detached   *bool   `json:"detached,omitempty"`
}

// BMCImport is the result of the import of a table.
type BMCImport struct {
	Added  int            `json:"added"` // with dry_run, the servers that would be added
	Failed int            `json:"failed"`
	Rows   []BMCImportRow `json:"rows"`
}

// BMCImportRow is the result of one row.
type BMCImportRow struct {
	Line  int    `json:"line"`
	Name  string `json:"name"`
	ID    string `json:"id,omitempty"`
	Error string `json:"error,omitempty"`
}

// bmcBoot is the body of a request to boot a server. Without an infra-env, the server boots the
// image of its current infra-env.
type bmcBoot struct {
	InfraEnvID string `json:"infra_env_id"`
	// Force boots the server even if its host is being installed or is installed.
	Force bool `json:"force,omitempty"`
}

// bmcRunningHost is the answer to a boot without force that would end a host.
type bmcRunningHost struct {
	*models.Error
	Host string `json:"host"` // name
}

// bmcPower is the body of a request to change the power state of a server.
type bmcPower struct {
	Action bmc.ActionKind `json:"action"` // on, off, soft or reset
}

type bmcServers struct{ BMCs }

// BMCOperations returns the operations on servers.
func BMCOperations(servers BMCs) []operation.Operation {
	b := bmcServers{servers}
	const server = BMCsRoute + "/:id"
	return []operation.Operation{
		{ID: "listBMCs", Method: http.MethodGet, Path: BMCsRoute, Access: operation.For(access.Viewer), Handler: b.list,
			Summary: "List the servers, sorted by name",
			Status:  http.StatusOK, Answer: map[string][]bmc.Server{}},
		{ID: "createBMC", Method: http.MethodPost, Path: BMCsRoute, Access: operation.For(access.Administrator),
			Handler: b.create, DryRun: true,
			Summary: "Add a server without a change of its power",
			Body:    BMCCreate{},
			Status:  http.StatusCreated, Answer: bmc.Server{}, Errors: []int{400, 409}},
		{ID: "importBMCs", Method: http.MethodPost, Path: BMCsRoute + "/import",
			Access: operation.For(access.Administrator), Handler: b.importTable,
			Summary:    "Add the servers of a table (text/csv); the answer reports the result of each row",
			Parameters: []operation.Parameter{{Name: "dry_run", Type: operation.Flag}},
			Body:       operation.File{},
			Status:     http.StatusOK, Answer: BMCImport{}, Errors: []int{400}},
		{ID: "getBMC", Method: http.MethodGet, Path: server, Access: operation.For(access.Viewer), Handler: b.show,
			Summary: "Show a server",
			Status:  http.StatusOK, Answer: bmc.Server{}, Errors: []int{404}},
		{ID: "updateBMC", Method: http.MethodPatch, Path: server, Access: operation.For(access.Administrator),
			Handler: b.change, DryRun: true,
			Summary: "Change a server that no BareMetalHost owns",
			Body:    BMCUpdate{},
			Status:  http.StatusOK, Answer: bmc.Server{}, Errors: []int{400, 404, 409}},
		{ID: "deleteBMC", Method: http.MethodDelete, Path: server, Access: operation.For(access.Administrator),
			Handler: b.remove, DryRun: true,
			Summary:    "Eject the image, power the server off if requested, then delete the server",
			Parameters: []operation.Parameter{{Name: "power_off", Type: operation.Flag}},
			Status:     http.StatusAccepted, Errors: []int{400, 404, 409}},
		{ID: "bootBMC", Method: http.MethodPost, Path: server + "/actions/boot",
			Access: operation.For(access.Operator), Handler: b.boot, DryRun: true,
			Summary: "Boot a server from the image of an infra-env; with force also if that ends a host",
			Body:    bmcBoot{},
			Status:  http.StatusAccepted, Answer: bmc.Server{}, Errors: []int{400, 404, 409}},
		{ID: "powerBMC", Method: http.MethodPost, Path: server + "/actions/power",
			Access: operation.For(access.Operator), Handler: b.power, DryRun: true,
			Summary: "Change the power of a server",
			Body:    bmcPower{},
			Status:  http.StatusAccepted, Answer: bmc.Server{}, Errors: []int{400, 404, 409}},
		{ID: "ejectBMC", Method: http.MethodPost, Path: server + "/actions/eject",
			Access: operation.For(access.Operator), Handler: b.requestAction(bmc.ActionEject), DryRun: true,
			Summary: "Eject the image from a server",
			Status:  http.StatusAccepted, Answer: bmc.Server{}, Errors: []int{404, 409}},
		{ID: "inspectBMC", Method: http.MethodPost, Path: server + "/actions/inspect",
			Access: operation.For(access.Operator), Handler: b.requestAction(bmc.ActionInspect), DryRun: true,
			Summary: "Read the state of a server from its BMC again",
			Status:  http.StatusAccepted, Answer: bmc.Server{}, Errors: []int{404, 409}},
		{ID: "listBMCConversations", Method: http.MethodGet, Path: server + "/conversations",
			Access: operation.For(access.Viewer), Handler: b.requestLogs,
			Summary: "List the latest requests to a BMC, the oldest first",
			Status:  http.StatusOK, Answer: map[string][]bmc.RequestLog{}, Errors: []int{404}},
	}
}

func (b bmcServers) list(c echo.Context) error {
	servers, err := b.Servers()
	return answer(c, map[string]any{"bmcs": servers}, err)
}

func (b bmcServers) create(c echo.Context) error {
	var given BMCCreate
	if err := operation.ReadJSON(c, &given); err != nil {
		return err
	}
	infraEnvID, err := b.InfraEnv(given.InfraEnvID)
	if err != nil {
		return err
	}
	server, err := b.Ensure(c.Request().Context(), bmc.NewID(), bmc.Desired{
		Name: given.Name, Address: given.Address, Username: given.Username, Password: given.Password,
		SkipVerify: given.SkipVerify, CA: given.CA,
		BootMAC: given.BootMAC, BootMode: given.BootMode, InfraEnvID: infraEnvID,
	})
	if err != nil {
		return err
	}
	recording.Created(c.Request().Context(), "bmc_id", server.ID)
	c.Response().Header().Set(echo.HeaderLocation, BMCsRoute+"/"+server.ID)
	return c.JSON(http.StatusCreated, server)
}

func (b bmcServers) importTable(c echo.Context) error {
	dry, err := operation.ReadFlag(c, "dry_run")
	if err != nil {
		return err
	}
	rows, err := bmc.ReadTable(c.Request().Body)
	if err != nil {
		return err
	}
	imported := &BMCImport{Rows: []BMCImportRow{}}
	for _, row := range rows {
		result := BMCImportRow{Line: row.Line, Name: row.Desired.Name}
		if result.ID, err = b.importRow(c.Request().Context(), row, dry); err != nil {
			result.Error = err.Error()
			imported.Failed++
		} else {
			imported.Added++
		}
		imported.Rows = append(imported.Rows, result)
	}
	return answer(c, imported, nil)
}

func (b bmcServers) importRow(ctx context.Context, row bmc.TableRow, dry bool) (string, error) {
	if row.Err != nil {
		return "", row.Err
	}
	var err error
	if row.Desired.InfraEnvID, err = b.InfraEnv(row.InfraEnv); err != nil {
		return "", err
	}
	if dry {
		return "", b.Check(row.Desired)
	}
	server, err := b.Ensure(ctx, bmc.NewID(), row.Desired)
	if err != nil {
		return "", err
	}
	return server.ID, nil
}

// find returns the server in the path.
func (b bmcServers) find(c echo.Context) (*bmc.Server, error) {
	name, err := url.PathUnescape(c.Param("id"))
	if err != nil {
		return nil, problem.BadRequest("%q is not the name of a server: %s", c.Param("id"), err)
	}
	server, err := b.Find(name)
	return server, err
}

func (b bmcServers) show(c echo.Context) error {
	server, err := b.find(c)
	return answer(c, server, err)
}

// checkOwner returns an error if another object owns the server, because only the owner may change
// it.
func checkOwner(server *bmc.Server) error {
	if server.Owner == "" {
		return nil
	}
	return problem.Conflict("The server %s is managed by %s; change or delete that object.", server.Name, server.Owner)
}

func (b bmcServers) change(c echo.Context) error {
	var given BMCUpdate
	if err := operation.ReadJSON(c, &given); err != nil {
		return err
	}
	server, err := b.find(c)
	if err != nil {
		return err
	}
	if err := checkOwner(server); err != nil {
		return err
	}
	if given.InfraEnvID != nil {
		if *given.InfraEnvID, err = b.InfraEnv(*given.InfraEnvID); err != nil {
			return err
		}
	}
	alter := func(d bmc.Desired) (bmc.Desired, error) {
		set(&d.Name, given.Name)
		set(&d.Address, given.Address)
		set(&d.Username, given.Username)
		set(&d.SkipVerify, given.SkipVerify)
		set(&d.CA, given.CA)
		set(&d.BootMAC, given.BootMAC)
		set(&d.BootMode, given.BootMode)
		set(&d.InfraEnvID, given.InfraEnvID)
		set(&d.Detached, given.Detached)
		if given.InfraEnvID != nil {
			d.ImageURL = ""
		}
		return d, nil
	}
	changed, err := b.Change(c.Request().Context(), server.ID, given.Password, alter)
	return answer(c, changed, err)
}

func set[T any](field, given *T) {
	if given != nil {
		*field = *given
	}
}

func (b bmcServers) remove(c echo.Context) error {
	powerOff, err := operation.ReadFlag(c, "power_off")
	if err != nil {
		return err
	}
	server, err := b.find(c)
	if err != nil {
		return err
	}
	if err := checkOwner(server); err != nil {
		return err
	}
	if err := b.Remove(c.Request().Context(), server.ID, powerOff); err != nil {
		return err
	}
	return c.NoContent(http.StatusAccepted)
}

func (b bmcServers) boot(c echo.Context) error {
	var given bmcBoot
	if err := readOptional(c, &given); err != nil {
		return err
	}
	server, err := b.find(c)
	if err != nil {
		return err
	}
	infraEnvID, err := b.InfraEnv(given.InfraEnvID)
	if err != nil {
		return err
	}
	booted, err := b.Boot(c.Request().Context(), server.ID, infraEnvID, given.Force)
	if running, ok := errors.AsType[*bmc.RunningHostError](err); ok {
		if body, ok := problem.From(err).Body().(*models.Error); ok {
			return c.JSON(http.StatusConflict, bmcRunningHost{body, running.Host})
		}
	}
	return answerWith(c, http.StatusAccepted, booted, err)
}

func (b bmcServers) power(c echo.Context) error {
	var given bmcPower
	if err := operation.ReadJSON(c, &given); err != nil {
		return err
	}
	switch given.Action {
	case bmc.ActionPowerOn, bmc.ActionPowerOff, bmc.ActionShutdown, bmc.ActionReset:
		return b.requestAction(given.Action)(c)
	}
	return problem.BadRequest("action is %q; expected on, off, soft or reset", string(given.Action))
}

func (b bmcServers) requestAction(kind bmc.ActionKind) echo.HandlerFunc {
	return func(c echo.Context) error {
		server, err := b.find(c)
		if err != nil {
			return err
		}
		ordered, err := b.RequestAction(c.Request().Context(), server.ID, kind)
		return answerWith(c, http.StatusAccepted, ordered, err)
	}
}

func (b bmcServers) requestLogs(c echo.Context) error {
	server, err := b.find(c)
	if err != nil {
		return err
	}
	logs, err := b.RequestLogs(server.ID)
	identity := access.From(c.Request().Context())
	for i := range logs {
		if logs[i].Stranger && identity.Role < access.Administrator && identity.Kind != access.Nobody {
			logs[i] = logs[i].WithoutAnswers()
		}
	}
	return answer(c, map[string]any{"conversations": logs}, err)
}
