package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/access/limit"
	"landfall/appliance/access/passkey"
	"landfall/appliance/access/people"
	"landfall/web/operation"
	"landfall/web/problem"
)

// passkeyCookie holds the sealed state of a begun registration or login with a passkey.
const passkeyCookie = "landfall-passkey"

// Passkey describes a passkey of an account.
type Passkey struct {
	ID         string    `json:"id"`
	Host       string    `json:"host"`
	Label      string    `json:"label"`
	Registered time.Time `json:"registered"`
	Used       time.Time `json:"used,omitzero"`
}

// ceremony is the argument of navigator.credentials.create or get.
type ceremony struct {
	Options json.RawMessage `json:"options"`
}

type passkeyLogin struct {
	Name   string          `json:"name"`
	Answer json.RawMessage `json:"answer"` // of navigator.credentials.get
}

type newPasskey struct {
	Label  string          `json:"label,omitempty"`
	Answer json.RawMessage `json:"answer"` // of navigator.credentials.create
}

func (s *Service) passkeyOperations() []operation.Operation {
	const path = BasePath + "/passkeys"
	owner := operation.For(access.Viewer).OfOwn()
	return []operation.Operation{
		{ID: "finishPasskeyLogin", Method: http.MethodPost, Path: BasePath + "/login/passkey",
			Access:  operation.Public(),
			Handler: s.finishPasskeyLogin,
			Summary: "Log in with a passkey, after the password", Body: passkeyLogin{}, Status: 200, Answer: Login{},
			Errors: []int{400, 401, 429}},
		{ID: "listPasskeys", Method: http.MethodGet, Path: path, Access: owner, Handler: s.listPasskeys,
			Summary: "List the caller's passkeys", Status: 200, Answer: []Passkey{}, Errors: []int{401, 409}},
		{ID: "beginPasskey", Method: http.MethodPost, Path: path + "/begin", Access: owner, Handler: s.beginPasskey,
			Summary: "Begin to register a passkey", Status: 200, Answer: ceremony{}, Errors: []int{401, 409}},
		{ID: "registerPasskey", Method: http.MethodPost, Path: path, Access: owner, Handler: s.registerPasskey,
			Summary: "Register a passkey", Body: newPasskey{}, Status: 201, Answer: Passkey{},
			Errors: []int{400, 401, 409}},
		{ID: "deletePasskey", Method: http.MethodDelete, Path: path + "/:id", Access: owner, Handler: s.deletePasskey,
			Summary: "Delete a passkey of the caller", Status: 204, NoContent: true, Errors: []int{401, 404, 409}},
	}
}

// beginPasskeyLogin asks for a passkey after the password of an account was right.
func (s *Service) beginPasskeyLogin(c echo.Context, kind string, account people.Account) error {
	if kind == "token" {
		return problem.Forbidden("%s logs in with a passkey, which only browsers can do; log in on the page and "+
			"create a token", account.Name)
	}
	holder, err := holderOf(account)
	if err != nil {
		return err
	}
	begun, err := s.Passkeys.BeginLogin(originOf(c.Request()), holder)
	if err != nil {
		return err
	}
	s.setCeremony(c, begun)
	return answer(c, http.StatusOK, map[string]any{"passkey": begun.Options}, nil)
}

func (s *Service) finishPasskeyLogin(c echo.Context) error {
	var body passkeyLogin
	if err := operation.ReadJSON(c, &body); err != nil {
		return err
	}
	state, err := s.takeCeremony(c)
	if err != nil {
		return err
	}
	return s.attempt(c, "", []string{limit.Account(body.Name)}, func(ctx context.Context) (people.Account, error) {
		account, err := s.People.Account(body.Name)
		if err != nil {
			return account, people.ErrCredentials
		}
		holder, err := holderOf(account)
		if err != nil {
			return account, err
		}
		used, err := s.Passkeys.FinishLogin(holder, state, body.Answer)
		if err != nil {
			return account, errors.Join(people.ErrCredentials, err)
		}
		return account, s.changePasskeys(ctx, account.Name, func(keys []passkey.Credential) ([]passkey.Credential,
			error) {
			for i, key := range keys {
				if key.ID() == used.ID() {
					keys[i] = used
				}
			}
			return keys, nil
		})
	})
}

func (s *Service) listPasskeys(c echo.Context) error {
	holder, err := s.holder(c)
	if err != nil {
		return err
	}
	list := []Passkey{}
	for _, key := range holder.Credentials {
		list = append(list, passkeyOf(key))
	}
	return answer(c, http.StatusOK, list, nil)
}

func (s *Service) beginPasskey(c echo.Context) error {
	holder, err := s.holder(c)
	if err != nil {
		return err
	}
	begun, err := s.Passkeys.BeginRegistration(originOf(c.Request()), holder)
	if err != nil {
		return err
	}
	s.setCeremony(c, begun)
	return answer(c, http.StatusOK, ceremony{begun.Options}, nil)
}

func (s *Service) registerPasskey(c echo.Context) error {
	var body newPasskey
	if err := operation.ReadJSON(c, &body); err != nil {
		return err
	}
	holder, err := s.holder(c)
	if err != nil {
		return err
	}
	state, err := s.takeCeremony(c)
	if err != nil {
		return err
	}
	made, err := s.Passkeys.FinishRegistration(holder, state, body.Label, body.Answer)
	if err != nil {
		return err
	}
	err = s.changePasskeys(c.Request().Context(), holder.Name,
		func(keys []passkey.Credential) ([]passkey.Credential, error) { return append(keys, made), nil })
	return answer(c, http.StatusCreated, passkeyOf(made), err)
}

func (s *Service) deletePasskey(c echo.Context) error {
	holder, err := s.holder(c)
	if err != nil {
		return err
	}
	if err := s.changePasskeys(c.Request().Context(), holder.Name,
		func(keys []passkey.Credential) ([]passkey.Credential, error) {
			left := slices.DeleteFunc(slices.Clone(keys),
				func(k passkey.Credential) bool { return k.ID() == c.Param("id") })
			if len(left) == len(keys) {
				return nil, problem.NotFound("the account has no passkey %q", c.Param("id"))
			}
			return left, nil
		}); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// holder returns the caller's account with its passkeys. Programs have no passkeys, nor have people
// without a session: their name is not the name of an account.
func (s *Service) holder(c echo.Context) (passkey.Account, error) {
	identity := access.From(c.Request().Context())
	if identity.Session == "" {
		return passkey.Account{}, problem.Conflict("only people with a session have passkeys; log in with an account")
	}
	account, err := s.People.Account(identity.Name)
	if err != nil {
		return passkey.Account{}, err
	}
	return holderOf(account)
}

func (s *Service) setCeremony(c echo.Context, begun passkey.Ceremony) {
	c.SetCookie(&http.Cookie{Name: passkeyCookie, Value: begun.State, Path: BasePath, HttpOnly: true,
		Secure: c.Request().TLS != nil, SameSite: http.SameSiteStrictMode, MaxAge: int(begun.Lifetime.Seconds())})
}

// takeCeremony returns the state of the begun ceremony, and deletes its cookie.
func (s *Service) takeCeremony(c echo.Context) (string, error) {
	cookie, err := c.Cookie(passkeyCookie)
	if err != nil {
		return "", problem.BadRequest("this browser has not begun to use a passkey here, or too long ago; try again")
	}
	c.SetCookie(&http.Cookie{Name: passkeyCookie, Path: BasePath, MaxAge: -1})
	return cookie.Value, nil
}

// changePasskeys changes the stored passkeys of an account.
func (s *Service) changePasskeys(ctx context.Context, name string,
	change func([]passkey.Credential) ([]passkey.Credential, error)) error {
	return s.People.ChangePasskeys(ctx, name, func(stored []json.RawMessage) ([]json.RawMessage, error) {
		keys, err := decodePasskeys(stored)
		if err != nil {
			return nil, err
		}
		if keys, err = change(keys); err != nil {
			return nil, err
		}
		changed := make([]json.RawMessage, len(keys))
		for i, key := range keys {
			if changed[i], err = json.Marshal(key); err != nil {
				return nil, fmt.Errorf("encode a passkey: %w", err)
			}
		}
		return changed, nil
	})
}

func decodePasskeys(stored []json.RawMessage) ([]passkey.Credential, error) {
	keys := make([]passkey.Credential, len(stored))
	for i, raw := range stored {
		if err := json.Unmarshal(raw, &keys[i]); err != nil {
			return nil, fmt.Errorf("decode a passkey: %w", err)
		}
	}
	return keys, nil
}

func holderOf(account people.Account) (passkey.Account, error) {
	keys, err := decodePasskeys(account.Passkeys)
	return passkey.Account{ID: account.ID, Name: account.Name, Credentials: keys}, err
}

func passkeyOf(key passkey.Credential) Passkey {
	return Passkey{ID: key.ID(), Host: key.Host, Label: key.Label, Registered: key.Registered, Used: key.Used}
}
