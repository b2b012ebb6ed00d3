package console

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// routes builds the router: middleware in the order it runs, then the paths.
func (c *Console) routes() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false
	r.UseRawPath = true // a request_id may hold %2F
	if err := r.SetTrustedProxies(nil); err != nil {
		panic(err) // nil proxies cannot fail to parse
	}
	r.Use(c.identify, c.observe, gin.CustomRecoveryWithWriter(nil, c.panicked))
	r.NoRoute(func(g *gin.Context) { c.fail(g, fail(http.StatusNotFound, "no such path")) })
	r.NoMethod(func(g *gin.Context) {
		c.fail(g, fail(http.StatusMethodNotAllowed, "method not allowed; see the Allow header"))
	})

	get := func(to gin.IRoutes, path string, handler gin.HandlerFunc) {
		to.GET(path, handler)
		to.HEAD(path, handler) // net/http leaves the body out
	}
	get(r, pathHealth, c.handle(c.getHealth))
	agents := r.Group(pathRequests, c.agentsOnly)
	agents.POST("", c.handle(c.postRequest))
	agents.DELETE("/:id", c.handle(c.deleteRequest))

	people := r.Group("/", c.knownHost)
	get(people, "/", c.page.Index)
	get(people, "/assets/*path", c.page.Asset)
	api := people.Group("/api", c.fromPage)
	api.GET("/me", c.handle(c.getMe))
	api.POST("/login", c.handle(c.postLogin))
	api.POST("/logout", c.handle(c.postLogout))
	in := api.Group("", c.authenticate)
	in.GET("/events", c.getEvents)
	in.GET("/tasks", c.handle(c.getTasks))
	in.GET("/tasks/:id", c.handle(c.getTask))
	in.POST("/tasks/:id/claim", change(c, c.postClaim))
	in.POST("/tasks/:id/release", change(c, c.postRelease))
	in.PUT("/tasks/:id/draft", change(c, c.putDraft))
	in.POST("/tasks/:id/check", about(c, c.postCheck))
	in.POST("/tasks/:id/answer", about(c, c.postAnswer))
	in.POST("/tasks/:id/candidates", about(c, c.postCandidates))
	return r
}
