package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"landfall/appliance/bmc"
	"landfall/web/problem"
)

// BMCsRoute is where the servers are that are driven by their BMCs. :id is a server's id or its
// name (escaped).
//
//	GET    /bmcs                          {"bmcs": [bmc.Server]}, by their names
//	POST   /bmcs                          BMCCreate -> 201 bmc.Server; nothing is done to the server's power
//	POST   /bmcs/import[?dry_run=true]    a table (text/csv, see bmc.ReadTable) -> BMCImport: good rows are added, bad ones told
//	GET    /bmcs/:id                      bmc.Server
//	PATCH  /bmcs/:id                      BMCUpdate -> bmc.Server; 409 if a BareMetalHost decides about it
//	DELETE /bmcs/:id[?power_off=true]     202: ejected, powered off if asked for, then gone
//	POST   /bmcs/:id/actions/boot         {"infra_env_id": "…"} or {} -> 202 bmc.Server
//	POST   /bmcs/:id/actions/power        {"action": "on|off|soft|reset"} -> 202 bmc.Server
//	POST   /bmcs/:id/actions/eject        -> 202 bmc.Server
//	POST   /bmcs/:id/actions/inspect      -> 202 bmc.Server: logs in and reads the server anew
//	GET    /bmcs/:id/conversations        {"conversations": [bmc.Conversation]}, the oldest first
//
// The live feed tells of changes with the kind "bmcs" and the server's id.
const BMCsRoute = BasePath + "/bmcs"

// BMCs is what the console asks about servers; its errors are those of package bmc, or fit for
// problem.From.
type BMCs interface {
	Servers() ([]*bmc.Server, error)
	Find(idOrName string) (*bmc.Server, error)
	// Ensure creates a server; its infra-env must be there.
	Ensure(ctx context.Context, id string, desired bmc.Desired) (*bmc.Server, error)
	Change(ctx context.Context, id string, alter func(bmc.Desired) (bmc.Desired, error)) (*bmc.Server, error)
	Forget(ctx context.Context, id string, powerOff bool) error
	Boot(ctx context.Context, id, infraEnvID string) (*bmc.Server, error)
	Order(ctx context.Context, id string, kind bmc.OrderKind) (*bmc.Server, error)
	Conversations(id string) ([]bmc.Conversation, error)
	// InfraEnv finds an infra-env by its id or its name, and returns its id; "" is none.
	InfraEnv(idOrName string) (string, error)
}

// BMCCreate describes a server.
type BMCCreate struct {
	Name       string `json:"name"`
	Address    string `json:"address"`
	Username   string `json:"username"`
	Password   string `json:"password"`
	SkipVerify bool   `json:"skip_verify,omitempty"`
	CA         string `json:"ca,omitempty"`
	BootMAC    string `json:"boot_mac,omitempty"`
	BootMode   string `json:"boot_mode,omitempty"`
	InfraEnvID string `json:"infra_env_id,omitempty"` // or its name
}

// BMCUpdate alters what is given of a server.
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

// BMCImport is what came of a table.
type BMCImport struct {
	Added  int            `json:"added"` // with dry_run, those that would be
	Failed int            `json:"failed"`
	Rows   []BMCImportRow `json:"rows"`
}

// BMCImportRow is what came of a row.
type BMCImportRow struct {
	Line  int    `json:"line"`
	Name  string `json:"name"`
	ID    string `json:"id,omitempty"`
	Error string `json:"error,omitempty"`
}

type bmcServers struct{ BMCs }

func registerBMCs(router *echo.Echo, servers BMCs) {
	b := bmcServers{servers}
	router.GET(BMCsRoute, b.list)
	router.POST(BMCsRoute, b.create)
	router.POST(BMCsRoute+"/import", b.importTable)
	router.GET(BMCsRoute+"/:id", b.show)
	router.PATCH(BMCsRoute+"/:id", b.change)
	router.DELETE(BMCsRoute+"/:id", b.remove)
	router.POST(BMCsRoute+"/:id/actions/boot", b.boot)
	router.POST(BMCsRoute+"/:id/actions/power", b.power)
	router.POST(BMCsRoute+"/:id/actions/eject", b.order(bmc.OrderEject))
	router.POST(BMCsRoute+"/:id/actions/inspect", b.order(bmc.OrderInspect))
	router.GET(BMCsRoute+"/:id/conversations", b.conversations)
}

func (b bmcServers) list(c echo.Context) error {
	servers, err := b.Servers()
	if err != nil {
		return err
	}
	return answer(c, map[string]any{"bmcs": servers})
}

func (b bmcServers) create(c echo.Context) error {
	var given BMCCreate
	if err := read(c, &given); err != nil {
		return err
	}
	infraEnvID, err := b.InfraEnv(given.InfraEnvID)
	if err != nil {
		return bmcProblem(err)
	}
	server, err := b.Ensure(c.Request().Context(), bmc.NewID(), bmc.Desired{
		Name: given.Name, Address: given.Address, Username: given.Username, Password: given.Password,
		SkipVerify: given.SkipVerify, CA: given.CA,
		BootMAC: given.BootMAC, BootMode: given.BootMode, InfraEnvID: infraEnvID,
	})
	if err != nil {
		return bmcProblem(err)
	}
	c.Response().Header().Set(echo.HeaderLocation, BMCsRoute+"/"+server.ID)
	return c.JSON(http.StatusCreated, server)
}

func (b bmcServers) importTable(c echo.Context) error {
	dry := c.QueryParam("dry_run") == "true"
	rows, err := bmc.ReadTable(c.Request().Body)
	if err != nil {
		return bmcProblem(err)
	}
	known, err := b.Servers()
	if err != nil {
		return err
	}
	taken := map[string]bool{}
	for _, server := range known {
		taken[server.Name] = true
	}
	imported := &BMCImport{Rows: []BMCImportRow{}}
	for _, row := range rows {
		told := BMCImportRow{Line: row.Line, Name: row.Desired.Name}
		if told.ID, err = b.importRow(c.Request().Context(), row, taken[row.Desired.Name], dry); err != nil {
			told.Error = err.Error()
			imported.Failed++
		} else {
			imported.Added++
		}
		imported.Rows = append(imported.Rows, told)
	}
	return answer(c, imported)
}

func (b bmcServers) importRow(ctx context.Context, row bmc.TableRow, taken, dry bool) (string, error) {
	if row.Err != nil {
		return "", row.Err
	}
	if taken {
		return "", &bmc.ConflictError{Reason: "There is a server with the name " + row.Desired.Name +
			" already; change that one, or remove it first."}
	}
	var err error
	if row.Desired.InfraEnvID, err = b.InfraEnv(row.InfraEnv); err != nil || dry {
		return "", err
	}
	server, err := b.Ensure(ctx, bmc.NewID(), row.Desired)
	if err != nil {
		return "", err
	}
	return server.ID, nil
}

// find is the server that a path names.
func (b bmcServers) find(c echo.Context) (*bmc.Server, error) {
	name, err := url.PathUnescape(c.Param("id"))
	if err != nil {
		return nil, problem.BadRequest("%q is no name of a server: %s", c.Param("id"), err)
	}
	server, err := b.Find(name)
	return server, bmcProblem(err)
}

func (b bmcServers) show(c echo.Context) error {
	server, err := b.find(c)
	if err != nil {
		return err
	}
	return answer(c, server)
}

// owned refuses what only a server's owner may change.
func owned(server *bmc.Server) error {
	if server.Owner == "" {
		return nil
	}
	return problem.Conflict("The server %s belongs to %s; change or delete that.", server.Name, server.Owner)
}

func (b bmcServers) change(c echo.Context) error {
	var given BMCUpdate
	if err := read(c, &given); err != nil {
		return err
	}
	server, err := b.find(c)
	if err != nil {
		return err
	}
	if err := owned(server); err != nil {
		return err
	}
	if given.InfraEnvID != nil {
		if *given.InfraEnvID, err = b.InfraEnv(*given.InfraEnvID); err != nil {
			return bmcProblem(err)
		}
	}
	changed, err := b.Change(c.Request().Context(), server.ID, func(d bmc.Desired) (bmc.Desired, error) {
		set(&d.Name, given.Name)
		set(&d.Address, given.Address)
		set(&d.Username, given.Username)
		set(&d.Password, given.Password)
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
	})
	if err != nil {
		return bmcProblem(err)
	}
	return answer(c, changed)
}

func set[T any](field, given *T) {
	if given != nil {
		*field = *given
	}
}

func (b bmcServers) remove(c echo.Context) error {
	powerOff := false
	if text := c.QueryParam("power_off"); text != "" {
		var err error
		if powerOff, err = strconv.ParseBool(text); err != nil {
			return problem.BadRequest("power_off is %q; expected true or false", text)
		}
	}
	server, err := b.find(c)
	if err != nil {
		return err
	}
	if err := owned(server); err != nil {
		return err
	}
	if err := b.Forget(c.Request().Context(), server.ID, powerOff); err != nil {
		return bmcProblem(err)
	}
	return c.NoContent(http.StatusAccepted)
}

func (b bmcServers) boot(c echo.Context) error {
	var given struct {
		InfraEnvID string `json:"infra_env_id"`
	}
	if err := readOptional(c, &given); err != nil {
		return err
	}
	server, err := b.find(c)
	if err != nil {
		return err
	}
	infraEnvID, err := b.InfraEnv(given.InfraEnvID)
	if err != nil {
		return bmcProblem(err)
	}
	return accepted(c)(b.Boot(c.Request().Context(), server.ID, infraEnvID))
}

func (b bmcServers) power(c echo.Context) error {
	var given struct {
		Action bmc.OrderKind `json:"action"`
	}
	if err := read(c, &given); err != nil {
		return err
	}
	switch given.Action {
	case bmc.OrderPowerOn, bmc.OrderPowerOff, bmc.OrderSoftOff, bmc.OrderReset:
		return b.order(given.Action)(c)
	}
	return problem.BadRequest("action is %q; expected on, off, soft or reset", string(given.Action))
}

func (b bmcServers) order(kind bmc.OrderKind) echo.HandlerFunc {
	return func(c echo.Context) error {
		server, err := b.find(c)
		if err != nil {
			return err
		}
		return accepted(c)(b.Order(c.Request().Context(), server.ID, kind))
	}
}

func accepted(c echo.Context) func(*bmc.Server, error) error {
	return func(server *bmc.Server, err error) error {
		if err != nil {
			return bmcProblem(err)
		}
		return c.JSON(http.StatusAccepted, server)
	}
}

func (b bmcServers) conversations(c echo.Context) error {
	server, err := b.find(c)
	if err != nil {
		return err
	}
	said, err := b.Conversations(server.ID)
	if err != nil {
		return bmcProblem(err)
	}
	return answer(c, map[string]any{"conversations": said})
}

// readOptional is read, of a body that may be empty.
func readOptional(c echo.Context, into any) error {
	if c.Request().ContentLength == 0 {
		return nil
	}
	return read(c, into)
}

// bmcProblem is what a client is told of an error of package bmc.
func bmcProblem(err error) error {
	status := 0
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*bmc.NotFoundError)):
		status = http.StatusNotFound
	case errors.As(err, new(*bmc.RequestError)), errors.As(err, new(*bmc.AddressError)):
		status = http.StatusBadRequest
	case errors.As(err, new(*bmc.ConflictError)):
		status = http.StatusConflict
	default:
		return err
	}
	return &problem.Error{Status: status, Reason: err.Error(), Err: err}
}
