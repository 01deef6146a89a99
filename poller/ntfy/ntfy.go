// Package ntfy calls a person who is away: with a message to an ntfy topic
// (https://docs.ntfy.sh/publish), or with a command of the person's own.
package ntfy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

const (
	// sendTimeout is how long a server or a command may take.
	sendTimeout = 10 * time.Second
	// maxErrorBytes is how much of a server's or a command's own error is read.
	maxErrorBytes = 4 << 10
)

// ErrRefused means that another try of the same call would be refused, too.
var ErrRefused = errors.New("the notification was refused")

// ErrUncertain means that the call may have arrived all the same.
var ErrUncertain = errors.New("no answer")

// Send calls the person as notify says. It may be repeated: a server from ntfy 2.16 on
// replaces the message of an earlier call with the same id.
func Send(ctx context.Context, env state.Getenv, notify *config.Notify, call *state.Call) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if len(notify.Command) > 0 {
		return runCommand(ctx, env, notify.Command, call)
	}
	return publish(ctx, notify, call)
}

// publish posts a call to its topic. The link is what a tap on the notification opens.
func publish(ctx context.Context, notify *config.Notify, call *state.Call) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, notify.URL, strings.NewReader(call.Text))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	header := request.Header
	header.Set("Title", mime.QEncoding.Encode("utf-8", call.Title))
	header.Set("Priority", strconv.Itoa(call.Priority))
	header.Set("X-Sequence-ID", call.ID)
	if call.Link != "" {
		header.Set("Click", call.Link)
	}
	if notify.Token != "" {
		header.Set("Authorization", "Bearer "+notify.Token)
	}
	// A redirect could lead the token to another server.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	response, err := client.Do(request)
	if err != nil {
		// net/http's own error quotes the address, and the topic in it is a secret.
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		if dial, ok := errors.AsType[*net.OpError](err); !ok || dial.Op != "dial" {
			err = fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		return fmt.Errorf("notify by ntfy: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 2 {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBytes))
	err = fmt.Errorf("notify by ntfy: the server answered %d%s%s", response.StatusCode,
		serverText(text), explainStatus(response.StatusCode))
	isTemporary := response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests ||
		response.StatusCode == http.StatusRequestTimeout
	if !isTemporary {
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// serverText is what a server says of an error: ntfy's own text, or the beginning of what
// another server says.
func serverText(body []byte) string {
	const maxBytes = 200
	var answer struct {
		Error string `json:"error"`
	}
	text := string(body[:min(len(body), maxBytes)])
	if json.Unmarshal(body, &answer) == nil && answer.Error != "" {
		text = answer.Error
	}
	if text = state.OneLine(text); text == "" {
		return ""
	}
	return ": " + text
}

// explainStatus says what an error of a server means for the person, or nothing.
func explainStatus(status int) string {
	switch {
	case status/100 == 3:
		return " (the server has moved: notify's url has to be its new address)"
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return " (the topic is protected: notify needs its token, or another one)"
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return " (there is no ntfy topic at this address)"
	case status == http.StatusRequestEntityTooLarge:
		return " (the notification is too long for the server)"
	case status == http.StatusTooManyRequests:
		return " (the server has had too many notifications: gchat-hooks tries again later)"
	case status >= 500:
		return " (the server is in trouble: gchat-hooks tries again)"
	}
	return ""
}

// runCommand runs the person's command without a shell. Its stdin has the title, the text
// and the link, one a line; its environment has GCHAT_CALL_ID and GCHAT_CALL_PRIORITY.
func runCommand(ctx context.Context, env state.Getenv, command []string, call *state.Call) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = state.Home(env)
	cmd.Stdin = strings.NewReader(call.Title + "\n" + call.Text + "\n" + call.Link + "\n")
	cmd.Env = append(cmd.Environ(), "GCHAT_CALL_ID="+call.ID, "GCHAT_CALL_PRIORITY="+strconv.Itoa(call.Priority))
	var stderr bytes.Buffer
	cmd.Stderr = &limitedWriter{to: &stderr, left: maxErrorBytes}
	// Cancel ends the command's children, too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("notify by the command %s: %w: %s", command[0], err, state.OneLine(stderr.String()))
	}
	return nil
}

// limitedWriter drops what is beyond its limit.
type limitedWriter struct {
	to   io.Writer
	left int
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	_, err := w.to.Write(p[:n])
	return len(p), err
}
