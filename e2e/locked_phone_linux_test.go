package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/pushservice"
)

// A phone whose page is closed is called for a question, and a tap in the notification
// answers it, once. It is taken back on another device. The page's own tests show what its service
// worker makes of a call, and what it sends.
func TestLockedPhone_TapTellsClaude(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		service := pushservice.New(t)
		phone, tablet := service.Subscribe("phone"), service.Subscribe("tablet")
		var page string
		s := startSession(t, c, config{
			Script: deployScript,
			Prepare: func(t *testing.T, home, project string) {
				certificate := filepath.Join(home, "push.pem")
				kit.WriteFile(t, certificate, string(service.CertificatePEM()), 0o600)
				env := append(personEnv(c, home), "SSL_CERT_FILE="+certificate)
				program, address := builtProgram(t), "127.0.0.1:"+kit.FreePort(t)
				runIn(t, project, env, program, "setup", "--space", "--address", address,
					"--preset", "approve")
				amendJSON(t, filepath.Join(home, strings.TrimPrefix(personalConfig, "~/")),
					map[string]any{"push_hosts": []string{service.Host()}})
				page = serveSpace(t, env, program, []string{"space", "--listen", address})
			},
		})
		address, key, _ := strings.Cut(page, "#key=")
		call := func(path, body string) (code int, answer []byte) {
			request, err := http.NewRequest(http.MethodPost, address+path, strings.NewReader(body))
			kit.NoError(t, err)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Gchat-Page-Key", key)
			response, err := http.DefaultClient.Do(request)
			kit.NoError(t, err)
			defer response.Body.Close()
			answer, err = io.ReadAll(response.Body)
			kit.NoError(t, err)
			return response.StatusCode, answer
		}
		var device struct{ ID string }
		for _, browser := range []*pushservice.Browser{tablet, phone} {
			body := fmt.Sprintf(`{"name":%q,"subscription":%s}`, browser.Name, browser.JSON())
			code, answer := call("page/push/devices", body)
			kit.Equalf(t, code, http.StatusOK, "adding the %s: %s", browser.Name, answer)
			kit.NoError(t, json.Unmarshal(answer, &device))
		}

		s.Prompt("go ahead")
		asked := service.WaitFor(phone, 1)[0].Content
		kit.Containsf(t, asked.Title+asked.Body, deployQuestion.Header, "the notification")
		kit.Equalf(t, asked.Buttons[1].Title, "Rolling deployment", "its second button")
		tap := fmt.Sprintf(`{"device":%q,"message":%q,"choice":%q}`, device.ID, asked.Message,
			asked.Buttons[1].Choice)
		code, answer := call("page/push/taps", tap)
		kit.Equalf(t, code, http.StatusOK, "the tap: %s", answer)
		s.awaitResult(1, "Rolling deployment")
		// A device whose notification was tapped closes it by itself.
		bound.Until(t, "the other device's call is taken back", func() bool {
			shown, _ := service.Shown(tablet)
			return shown == 0
		})
		for _, browser := range []*pushservice.Browser{tablet, phone} {
			_, rings := service.Shown(browser)
			kit.Equalf(t, rings, 1, "calls on the %s", browser.Name)
		}
		code, _ = call("page/push/taps", strings.Replace(tap, `"choice":"2"`, `"choice":"1"`, 1))
		kit.Equalf(t, code, http.StatusConflict, "a tap that comes too late")
	})
}
