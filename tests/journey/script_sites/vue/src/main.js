import { createApp } from "vue";
import { createRouter, createWebHistory } from "vue-router";
import App from "./App.vue";
import Catalogue from "./Catalogue.vue";

const routes = [
  { path: "/", component: Catalogue },
  { path: "/item/:id", component: () => import("./Item.vue") },
];
createApp(App).use(createRouter({ history: createWebHistory(), routes })).mount("#app");
